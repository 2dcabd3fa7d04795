//! Breakages on purpose: each is a script with a hole, or a store that does not do what it says.
//! The simulation has to notice every one of them.

mod lock_holes;
mod native_holes;
mod story_holes;

use std::sync::LazyLock;

use lock_holes::LOCK_HOLES;
use lockkeeper_store::host::Script;
#[cfg(test)]
use lockkeeper_store::script::catalog;
pub(crate) use native_holes::{NativeHole, Owed};
use story_holes::{
    DEADLOCK_HOLES, ELECTION_HOLES, LATCH_HOLES, NEGOTIATION_HOLES, PERMIT_HOLES, PREEMPTION_HOLES,
};

/// What is broken in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Nothing.
    None,
    /// A script with some of its text replaced: which hole of a story.
    Script(Story, usize),
    /// A store that confirms subscriptions that it has not made.
    Deaf,
    /// A store that does something else than commands without a script say.
    Native(NativeHole),
}

/// Scripts, the text that is taken out of each of them, and what is put there instead.
struct Hole {
    name: &'static str,
    scripts: &'static [&'static Script],
    taken: &'static str,
    put: &'static str,
}

/// The holes of a story: the name and the scripts of each, what is taken out, and what is put in.
macro_rules! holes {
    ($all:ident: $($name:literal in $($script:ident),+: $taken:literal => $put:literal;)*) => {
        pub(super) const $all: &[$crate::mutants::Hole] = &[$($crate::mutants::Hole {
            name: $name,
            scripts: &[$(&lockkeeper_store::script::catalog::$script),+],
            taken: $taken,
            put: $put,
        }),*];
    };
}
use holes;

/// Where a hole shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Story {
    Locks,
    Permits,
    Latches,
    Elections,
    Negotiations,
    Preemptions,
    Deadlocks,
}

static SCRIPTS: LazyLock<Vec<Vec<Vec<Script>>>> = LazyLock::new(|| {
    let of_story = |story: Story| story.holes().iter().map(Hole::scripts).collect();
    Story::ALL.map(of_story).into()
});

// === impl Mutant ===

impl Mutant {
    /// All of them, but for those with scenarios of their own.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Deaf];
        all.extend(NativeHole::ALL.map(Self::Native));
        all.extend(Story::Locks.mutants());
        all
    }

    /// Breakages that break nothing, because a script has no such text. To be asked before any of
    /// them is run: a run would not tell.
    pub(crate) fn without_effect() -> Vec<String> {
        let all = Story::ALL.into_iter().flat_map(Story::holes);
        all.flat_map(Hole::not_found).collect()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "nothing is broken",
            Self::Deaf => "the store forgets to subscribe",
            Self::Native(hole) => hole.name(),
            Self::Script(story, hole) => story.holes().get(hole).map_or("none", |it| it.name),
        }
    }

    /// The script to run in the place of the one with this name.
    pub(crate) fn script(self, name: &str) -> Option<&'static Script> {
        let named = |script: &&Script| script.name == name;
        match self {
            Self::Script(story, hole) => SCRIPTS[story as usize][hole].iter().find(named),
            Self::None | Self::Deaf | Self::Native(_) => None,
        }
    }

    pub(crate) fn forgets_to_subscribe(self) -> bool {
        self == Self::Deaf
    }
}

// === impl Story ===

impl Story {
    const ALL: [Self; 7] = [
        Self::Locks,
        Self::Permits,
        Self::Latches,
        Self::Elections,
        Self::Negotiations,
        Self::Preemptions,
        Self::Deadlocks,
    ];

    fn holes(self) -> &'static [Hole] {
        match self {
            Self::Locks => LOCK_HOLES,
            Self::Permits => PERMIT_HOLES,
            Self::Latches => LATCH_HOLES,
            Self::Elections => ELECTION_HOLES,
            Self::Negotiations => NEGOTIATION_HOLES,
            Self::Preemptions => PREEMPTION_HOLES,
            Self::Deadlocks => DEADLOCK_HOLES,
        }
    }

    /// Its breakages.
    pub(crate) fn mutants(self) -> impl Iterator<Item = Mutant> {
        (0..self.holes().len()).map(move |hole| Mutant::Script(self, hole))
    }
}

// === impl Hole ===

impl Hole {
    fn scripts(&self) -> Vec<Script> {
        let broken = self.scripts.iter().map(|script| {
            let source = script.source().replace(self.taken, self.put);
            Script::new(script.name, Box::leak(source.into_boxed_str()))
        });
        broken.collect()
    }

    fn not_found(&self) -> Vec<String> {
        let whole = self
            .scripts
            .iter()
            .filter(|script| !script.source().contains(self.taken));
        whole
            .map(|script| format!("{}: {} has no `{}`", self.name, script.name, self.taken))
            .collect()
    }
}

#[test]
fn every_text_to_be_taken_out_is_found() {
    const GONE: Hole = Hole {
        name: "something",
        scripts: &[&catalog::LOCK_RENEW],
        taken: "no such text",
        put: "",
    };
    assert_eq!(Mutant::without_effect(), Vec::<String>::new());
    assert_eq!(
        GONE.not_found(),
        ["something: lock_renew has no `no such text`"]
    );
}
