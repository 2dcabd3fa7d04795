//! Breakages on purpose: each is a script with a hole, or a store that does not do what it says.
//! The simulation has to notice every one of them.

mod counter_holes;
mod election_holes;
mod holes;
mod native_holes;
mod negotiation_holes;
mod plain_holes;

use std::sync::LazyLock;

use counter_holes::{LATCH_HOLES, PERMIT_HOLES};
use election_holes::ELECTION_HOLES;
use holes::HOLES;
use lockkeeper_store::host::Script;
#[cfg(test)]
use lockkeeper_store::script::catalog;
pub(crate) use native_holes::{NativeHole, Owed};
use negotiation_holes::NEGOTIATION_HOLES;
use plain_holes::PLAIN_HOLES;

/// What is broken in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Nothing.
    None,
    /// A script with some of its text replaced.
    Script(usize),
    /// The same of a semaphore's.
    Permits(usize),
    /// The same of a latch's.
    Latch(usize),
    /// The same of an election's.
    Election(usize),
    /// The same of what is negotiated.
    Negotiation(usize),
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

static SCRIPTS: LazyLock<Vec<Vec<Script>>> = LazyLock::new(|| holes().map(Hole::scripts).collect());

static PERMIT_SCRIPTS: LazyLock<Vec<Vec<Script>>> =
    LazyLock::new(|| PERMIT_HOLES.iter().map(Hole::scripts).collect());

static LATCH_SCRIPTS: LazyLock<Vec<Vec<Script>>> =
    LazyLock::new(|| LATCH_HOLES.iter().map(Hole::scripts).collect());

static ELECTION_SCRIPTS: LazyLock<Vec<Vec<Script>>> =
    LazyLock::new(|| ELECTION_HOLES.iter().map(Hole::scripts).collect());

static NEGOTIATION_SCRIPTS: LazyLock<Vec<Vec<Script>>> =
    LazyLock::new(|| NEGOTIATION_HOLES.iter().map(Hole::scripts).collect());

/// Those of the locks in a plan.
fn holes() -> impl Iterator<Item = &'static Hole> {
    HOLES.iter().chain(&PLAIN_HOLES)
}

// === impl Mutant ===

impl Mutant {
    /// Those of semaphores.
    pub(crate) fn all_of_permits() -> impl Iterator<Item = Self> {
        (0..PERMIT_HOLES.len()).map(Self::Permits)
    }

    /// Those of latches.
    pub(crate) fn all_of_latches() -> impl Iterator<Item = Self> {
        (0..LATCH_HOLES.len()).map(Self::Latch)
    }

    /// Those of elections.
    pub(crate) fn all_of_elections() -> impl Iterator<Item = Self> {
        (0..ELECTION_HOLES.len()).map(Self::Election)
    }

    /// Those of what is negotiated.
    pub(crate) fn all_of_negotiations() -> impl Iterator<Item = Self> {
        (0..NEGOTIATION_HOLES.len()).map(Self::Negotiation)
    }

    /// All of them, but for those with scenarios of their own.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Deaf];
        all.extend(NativeHole::ALL.map(Self::Native));
        all.extend((0..holes().count()).map(Self::Script));
        all
    }

    /// Breakages that break nothing, because a script has no such text. To be asked before any of
    /// them is run: a run would not tell.
    pub(crate) fn without_effect() -> Vec<String> {
        let counters = PERMIT_HOLES.iter().chain(&LATCH_HOLES);
        let others = ELECTION_HOLES.iter().chain(&NEGOTIATION_HOLES);
        let all = holes().chain(counters).chain(others);
        all.flat_map(Hole::not_found).collect()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "nothing is broken",
            Self::Deaf => "the store forgets to subscribe",
            Self::Native(hole) => hole.name(),
            Self::Script(hole) => holes().nth(hole).map_or("none", |it| it.name),
            Self::Permits(hole) => PERMIT_HOLES[hole].name,
            Self::Latch(hole) => LATCH_HOLES[hole].name,
            Self::Election(hole) => ELECTION_HOLES[hole].name,
            Self::Negotiation(hole) => NEGOTIATION_HOLES[hole].name,
        }
    }

    /// The script to run in the place of the one with this name.
    pub(crate) fn script(self, name: &str) -> Option<&'static Script> {
        let named = |script: &&Script| script.name == name;
        match self {
            Self::Script(hole) => SCRIPTS[hole].iter().find(named),
            Self::Permits(hole) => PERMIT_SCRIPTS[hole].iter().find(named),
            Self::Latch(hole) => LATCH_SCRIPTS[hole].iter().find(named),
            Self::Election(hole) => ELECTION_SCRIPTS[hole].iter().find(named),
            Self::Negotiation(hole) => NEGOTIATION_SCRIPTS[hole].iter().find(named),
            Self::None | Self::Deaf | Self::Native(_) => None,
        }
    }

    pub(crate) fn forgets_to_subscribe(self) -> bool {
        self == Self::Deaf
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
