//! The goal of a wait, and how it can end without it.

use lockkeeper_store::script::Mode;

/// The goal of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Goal {
    /// To hold a lock.
    Lock(Mode),
    /// To hold permits of a semaphore.
    Permits,
    /// That a latch opens.
    Latch,
}

/// Why a wait ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// Its deadline passed.
    TimedOut,
    /// Its caller cancelled it.
    Cancelled,
    /// It was part of a deadlock, and its caller wanted it to end then.
    Deadlock,
}

// === impl Goal ===

impl From<Mode> for Goal {
    fn from(mode: Mode) -> Self {
        Self::Lock(mode)
    }
}
