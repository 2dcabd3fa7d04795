//! The scripts and the messages of each mode.

use super::{
    encoding::{WAKE_ALL, WAKE_ONE},
    hold::Mode,
};
use crate::{host::Script, script::catalog};

/// The scripts of one mode.
pub(super) struct Verbs {
    pub(super) acquire: &'static Script,
    pub(super) release: &'static Script,
    pub(super) undo: &'static Script,
}

// === impl Mode ===

impl Mode {
    /// The message that a lock may be free.
    pub(super) fn wake(self) -> &'static str {
        match self {
            Self::Write => WAKE_ALL,
            Self::Exclusive | Self::Fair | Self::Read => WAKE_ONE,
        }
    }

    /// Its scripts.
    pub(super) fn verbs(self) -> Verbs {
        let (acquire, release, undo) = match self {
            Self::Exclusive => (
                &catalog::LOCK_ACQUIRE,
                &catalog::LOCK_RELEASE,
                &catalog::LOCK_UNDO,
            ),
            Self::Fair => (
                &catalog::FAIR_ACQUIRE,
                &catalog::FAIR_RELEASE,
                &catalog::FAIR_UNDO,
            ),
            Self::Read => (
                &catalog::READ_ACQUIRE,
                &catalog::READ_RELEASE,
                &catalog::READ_UNDO,
            ),
            Self::Write => (
                &catalog::WRITE_ACQUIRE,
                &catalog::WRITE_RELEASE,
                &catalog::WRITE_UNDO,
            ),
        };
        Verbs {
            acquire,
            release,
            undo,
        }
    }
}
