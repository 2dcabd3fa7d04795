//! One store of a quorum, and what is known of it.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::script::{CallError, calls::HostScripts};

/// See the module.
pub(super) struct Voter {
    pub(super) name: String,
    pub(super) scripts: HostScripts,
    /// It did not answer its last call in time.
    silent: AtomicBool,
    /// An error was logged that it is the same server as another one.
    double_reported: AtomicBool,
}

// === impl Voter ===

impl Voter {
    pub(super) fn new(name: String, scripts: HostScripts) -> Self {
        Self {
            name,
            scripts,
            silent: AtomicBool::new(false),
            double_reported: AtomicBool::new(false),
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// True if it was not silent before.
    pub(super) fn falls_silent(&self) -> bool {
        let news = !self.silent.swap(true, Ordering::Relaxed);
        if news {
            tracing::warn!(store = %self.name, "a store of the quorum does not answer in time");
        }
        news
    }

    pub(super) fn speaks(&self) {
        if self.is_silent() && self.silent.swap(false, Ordering::Relaxed) {
            tracing::info!(store = %self.name, "a store of the quorum answers again");
        }
    }

    /// The error of one that is the same server as another, said once to the operator.
    pub(super) fn refuse_double(&self, other: &str) -> CallError {
        let problem = format!(
            "{} is the same server as {other}, so it has no vote",
            self.name
        );
        if !self.double_reported.swap(true, Ordering::Relaxed) {
            tracing::error!(%problem, "two stores of the quorum are one");
        }
        CallError::Unavailable(problem)
    }
}

impl fmt::Debug for Voter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
