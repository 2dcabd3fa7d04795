//! What a command runs under.

use lockkeeper_api::pb::LockSpec;

use crate::args::RunArgs;

/// What is held while the command runs; all or nothing.
#[derive(Clone, Debug)]
pub(crate) enum RunTarget {
    /// Locks, at least one; the first gives the command its fencing token.
    Locks(Vec<LockSpec>),
    /// Permits of a semaphore.
    Permits { name: String, permits: u32 },
}

/// The grants of a target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granted {
    /// Each lock's name and token.
    pub(crate) fencing_tokens: Vec<(String, u64)>,
}

// === impl RunTarget ===

impl RunTarget {
    pub(super) fn new(args: &RunArgs) -> Self {
        match args.permits {
            Some(permits) => Self::Permits {
                name: args.name.clone(),
                permits,
            },
            None => Self::Locks(args.locks()),
        }
    }

    /// Its names, for messages.
    pub(super) fn names(&self) -> String {
        match self {
            Self::Locks(locks) => {
                let names: Vec<&str> = locks.iter().map(|lock| lock.name.as_str()).collect();
                names.join(", ")
            }
            Self::Permits { name, .. } => name.clone(),
        }
    }

    /// One of them, for messages.
    pub(super) fn one(&self, name: &str) -> String {
        match self {
            Self::Locks(_) => format!("the lock {name}"),
            Self::Permits { .. } => format!("the permits of {name}"),
        }
    }

    /// All of it, for messages.
    pub(super) fn all(&self) -> String {
        match self {
            Self::Locks(locks) => {
                let words: Vec<_> = locks.iter().map(|lock| self.one(&lock.name)).collect();
                words.join(", ")
            }
            Self::Permits { name, .. } => self.one(name),
        }
    }

    /// The tokens in the order of the command's environment, the first lock's first.
    pub(super) fn tokens(&self, granted: Granted) -> Vec<(String, u64)> {
        let first = match self {
            Self::Locks(locks) => locks.first().map(|lock| lock.name.as_str()),
            Self::Permits { .. } => None,
        };
        let mut tokens = granted.fencing_tokens;
        tokens.sort_by_key(|(name, _)| Some(name.as_str()) != first);
        tokens
    }
}
