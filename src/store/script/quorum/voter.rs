//! One store of a quorum, and what is known of it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::script::{CallError, calls::HostScripts};

/// Repairs that wait for one store. Further ones are left to the leases of what they are about.
const REPAIRS_MAX: usize = 10_000;

/// Repairs that one store is asked for at the same time. All that it has missed would come at once
/// otherwise, and keep it from answering in time.
const REPAIRS_AT_ONCE: usize = 16;

/// See the module.
pub(super) struct Voter {
    pub(super) name: String,
    pub(super) scripts: HostScripts,
    /// It did not answer its last call in time.
    silent: AtomicBool,
    /// It answers again.
    spoke: Notify,
    repairs: Arc<Semaphore>,
    turns: Semaphore,
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
            spoke: Notify::new(),
            repairs: Arc::new(Semaphore::new(REPAIRS_MAX)),
            turns: Semaphore::new(REPAIRS_AT_ONCE),
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
            self.spoke.notify_waiters();
        }
    }

    /// Room for one more repair; none if there are too many.
    pub(super) fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.repairs).try_acquire_owned().ok()
    }

    /// The turn of a repair.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    /// Resolves when it answers, as far as is known.
    pub(super) async fn not_silent(&self) {
        loop {
            let spoke = self.spoke.notified();
            if !self.is_silent() {
                return;
            }
            spoke.await;
        }
    }

    /// The error of one that is the same server as another, said once to the operator.
    pub(super) fn refuse_double(&self, other: &str) -> CallError {
        let problem = format!(
            "{} is the same server as {other}, so it has no vote",
            self.name
        );
        if !self.double_reported.swap(true, Ordering::Relaxed) {
            tracing::error!(%problem, "two addresses of the quorum are one store");
        }
        CallError::Unavailable(problem)
    }
}

impl fmt::Debug for Voter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
