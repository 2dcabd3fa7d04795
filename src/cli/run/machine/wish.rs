//! What the user wants to hold.

use lockkeeper_api::pb::LockSpec;

/// What to hold while the command runs; all of it or nothing.
#[derive(Clone, Debug)]
pub(in crate::run) enum Wish {
    /// Locks, at least one; the first gives the command its fencing token.
    Locks(Vec<LockSpec>),
    /// Permits of a semaphore.
    Permits { name: String, permits: u32 },
}

/// What was granted of it.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct Granted {
    /// Names and tokens of the locks.
    pub(in crate::run) fencing_tokens: Vec<(String, u64)>,
}

// === impl Wish ===

impl Wish {
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

    /// The tokens in the order in which the command is told of them: that of the first lock of the
    /// wish first.
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
