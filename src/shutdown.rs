//! Stopping in two phases: a token asks every task to stop, a tracker tells when all have. The only file that spawns tasks.

use std::{future::Future, time::Duration};

use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

/// The tasks of one coordinator, and the wish to stop them.
#[derive(Clone, Debug)]
pub struct Tasks {
    /// Kept so that values dropped outside of the runtime can still spawn what cleans up after them.
    runtime: Handle,
    stop: CancellationToken,
    tracker: TaskTracker,
}

/// Spawns a task that ends by itself, because what it serves is gone.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub fn spawn_detached<F>(name: &'static str, task: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(task.instrument(tracing::debug_span!("task", name)))
}

// === impl Tasks ===

#[expect(clippy::new_without_default, reason = "needs a runtime")]
impl Tasks {
    /// No tasks yet, on the current runtime.
    pub fn new() -> Self {
        let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
        Self {
            runtime: Handle::current(),
            stop,
            tracker,
        }
    }

    /// Spawns a task that [`Tasks::finished`] waits for.
    pub fn spawn<F>(&self, name: &'static str, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = task.instrument(tracing::debug_span!("task", name));
        self.runtime.spawn(self.tracker.track_future(task))
    }

    /// Cancelled when the tasks should stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Asks all tasks to stop; returns at once.
    pub fn request_stop(&self) {
        self.stop.cancel();
    }

    /// Waits until all tasks have ended; false if some had not within the grace time.
    pub async fn finished(&self, grace: Duration) -> bool {
        self.tracker.close();
        tokio::time::timeout(grace, self.tracker.wait())
            .await
            .is_ok()
    }
}
