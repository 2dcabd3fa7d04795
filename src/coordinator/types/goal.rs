//! The goal of a wait.

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

// === impl Goal ===

impl From<Mode> for Goal {
    fn from(mode: Mode) -> Self {
        Self::Lock(mode)
    }
}
