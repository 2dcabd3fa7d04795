//! One store of a quorum, and what is known of it.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::Quorum;
use crate::script::{CallError, calls::HostScripts};

/// How often a store that has stopped answering is asked whether it does again.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct Voter {
    pub(super) name: String,
    pub(super) scripts: HostScripts,
    /// It did not answer its last call in time.
    silent: AtomicBool,
    /// That it is the same server as another one has been said.
    told_double: AtomicBool,
}

// === impl Voter ===

impl Voter {
    pub(super) fn new(name: String, scripts: HostScripts) -> Self {
        Self {
            name,
            scripts,
            silent: AtomicBool::new(false),
            told_double: AtomicBool::new(false),
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
        if !self.told_double.swap(true, Ordering::Relaxed) {
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

// === impl Quorum ===

impl Quorum {
    /// Asks a silent store until it answers.
    pub(super) fn watch_silent(&self, which: usize) {
        let (this, stop) = (self.clone(), self.0.tasks.stop().clone());
        let answering = async move {
            let voter = &this.voters()[which];
            while voter.is_silent() {
                tokio::time::sleep(PROBE_INTERVAL).await;
                match voter.scripts.probe().await {
                    Err(error) if error.is_transient() => {}
                    Ok(()) | Err(_) => voter.speaks(),
                }
            }
        };
        self.0.tasks.spawn("silent-store", async move {
            stop.run_until_cancelled(answering).await;
        });
    }
}
