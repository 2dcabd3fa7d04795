//! Breakages on purpose: each is a script with a hole, or a store that does not do what it says. The simulation has to notice every one of them.

use std::sync::LazyLock;

use lockkeeper::{host::Script, script::catalog};

/// What is broken in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Nothing.
    None,
    /// A script with some of its text replaced.
    Script(usize),
    /// A store that confirms subscriptions that it has not made.
    Deaf,
}

/// A script, the text that is taken out of it, and what is put there instead.
struct Hole {
    name: &'static str,
    script: &'static Script,
    taken: &'static str,
    put: &'static str,
}

const HOLES: [Hole; 16] = [
    Hole {
        name: "a release does not look at the owner",
        script: &catalog::LOCK_RELEASE,
        taken: "if not fields[1] then",
        put: "fields[1] = fields[1] or '1'\nif false then",
    },
    Hole {
        name: "an acquire does not look at the holder",
        script: &catalog::LOCK_ACQUIRE,
        taken: "if remaining == -2 then",
        put: "if not count then",
    },
    Hole {
        name: "the token is a constant",
        script: &catalog::LOCK_ACQUIRE,
        taken: "math.max(previous + 1, now_micros())",
        put: "7",
    },
    Hole {
        name: "the token stays when the lock is granted anew",
        script: &catalog::LOCK_ACQUIRE,
        taken: "local token = math.max(previous + 1, now_micros())",
        put: "local token = previous > 0 and previous or now_micros()",
    },
    Hole {
        name: "a release tells nobody",
        script: &catalog::LOCK_RELEASE,
        taken: "redis.call(publish, channel, message)",
        put: "",
    },
    Hole {
        name: "an undo tells nobody",
        script: &catalog::LOCK_UNDO,
        taken: "redis.call(publish, channel, message)",
        put: "",
    },
    Hole {
        name: "a renewal extends nothing",
        script: &catalog::LOCK_RENEW,
        taken: "redis.call('pexpire', lock, lease)",
        put: "",
    },
    Hole {
        name: "a renewal does not look at the owner",
        script: &catalog::LOCK_RENEW,
        taken: "elseif not count then",
        put: "elseif false then",
    },
    Hole {
        name: "an undo does nothing",
        script: &catalog::LOCK_UNDO,
        taken: "local undone = 0",
        put: "if true then return {1, 0} end\nlocal undone = 0",
    },
    Hole {
        name: "an undo takes more than its own hold",
        script: &catalog::LOCK_UNDO,
        taken: "while count > expected do",
        put: "while count > 0 do",
    },
    Hole {
        name: "a release frees the lock whatever the count",
        script: &catalog::LOCK_RELEASE,
        taken: "if count <= 1 then",
        put: "if true then",
    },
    Hole {
        name: "an acquire counts no further holds",
        script: &catalog::LOCK_ACQUIRE,
        taken: "(known or tonumber(count)) + 1",
        put: "1",
    },
    Hole {
        name: "an acquire forgets the lease",
        script: &catalog::LOCK_ACQUIRE,
        taken: "redis.call('pexpire', lock, lease)",
        put: "redis.call('persist', lock)",
    },
    Hole {
        name: "an acquire does not look for an earlier answer",
        script: &catalog::LOCK_ACQUIRE,
        taken: "local first = redis.call('hmget', record, 'op', 'owner', 'answer')",
        put: "local first = {}",
    },
    Hole {
        name: "a release does not look for an earlier answer",
        script: &catalog::LOCK_RELEASE,
        taken: "local first = redis.call('hmget', record, 'op', 'owner', 'answer')",
        put: "local first = {}",
    },
    Hole {
        name: "an acquire does not remember its request",
        script: &catalog::LOCK_ACQUIRE,
        taken: "'answer', answer)",
        put: "'answer', '0')",
    },
];

static SCRIPTS: LazyLock<Vec<Script>> = LazyLock::new(|| HOLES.iter().map(Hole::script).collect());

// === impl Mutant ===

impl Mutant {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::Deaf];
        all.extend((0..HOLES.len()).map(Self::Script));
        all
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "nothing is broken",
            Self::Deaf => "the store forgets to subscribe",
            Self::Script(hole) => HOLES[hole].name,
        }
    }

    /// The script to run in the place of the one with this name.
    pub(crate) fn script(self, name: &str) -> Option<&'static Script> {
        match self {
            Self::Script(hole) if HOLES[hole].script.name == name => Some(&SCRIPTS[hole]),
            _ => None,
        }
    }

    pub(crate) fn forgets_to_subscribe(self) -> bool {
        self == Self::Deaf
    }
}

// === impl Hole ===

impl Hole {
    fn script(&self) -> Script {
        let source = self.script.source;
        assert!(
            source.contains(self.taken),
            "{}: {} has no `{}`",
            self.name,
            self.script.name,
            self.taken
        );
        let source = source.replace(self.taken, self.put);
        Script::new(self.script.name, Box::leak(source.into_boxed_str()))
    }
}
