//! Stopping in two phases: a token asks all tasks to stop, a tracker reports that all have. No
//! other file of the coordinator spawns tasks.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};
use tracing::{Instrument as _, Span};

/// The tasks of one coordinator, and the request to stop them.
#[derive(Clone, Debug)]
pub struct Tasks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Kept so that values dropped outside of the runtime can still spawn their cleanup.
    runtime: Handle,
    stop: CancellationToken,
    tracker: TaskTracker,
}

/// Work that always runs to its end: dropped before, it continues as a detached task and its result
/// is discarded.
pub struct DetachOnDrop<T: Send + 'static> {
    name: &'static str,
    tasks: Tasks,
    span: Span,
    /// None once it has ended.
    work: Option<BoxFuture<'static, T>>,
    _tracked: TaskTrackerToken,
}

/// Spawns a task that no one waits for; it must end by itself.
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
        Self(Arc::new(Shared {
            runtime: Handle::current(),
            stop,
            tracker,
        }))
    }

    /// Spawns a task that [`Tasks::finished`] waits for.
    pub fn spawn<F>(&self, name: &'static str, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = task.instrument(tracing::debug_span!("task", name));
        self.0.runtime.spawn(self.0.tracker.track_future(task))
    }

    /// Work that needs no task while the caller polls it. [`Tasks::finished`] waits for it too.
    pub fn detach_on_drop<T: Send + 'static>(
        &self,
        name: &'static str,
        work: BoxFuture<'static, T>,
    ) -> DetachOnDrop<T> {
        DetachOnDrop {
            name,
            tasks: self.clone(),
            span: Span::none(),
            work: Some(work),
            _tracked: self.0.tracker.token(),
        }
    }

    /// Cancelled when the tasks should stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Asks all tasks to stop; returns at once.
    pub fn request_stop(&self) {
        self.0.stop.cancel();
    }

    /// Waits until all tasks have ended; false if some have not within the grace time.
    pub async fn finished(&self, grace: Duration) -> bool {
        self.0.tracker.close();
        tokio::time::timeout(grace, self.0.tracker.wait())
            .await
            .is_ok()
    }
}

// === impl DetachOnDrop ===

impl<T: Send + 'static> DetachOnDrop<T> {
    /// Does the work in this span.
    #[must_use]
    pub fn in_span(mut self, span: Span) -> Self {
        self.span = span;
        self
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self { span, work, .. } = &mut *self;
        let Some(working) = work else {
            return Poll::Pending;
        };
        let _entered = span.enter();
        let ended = working.as_mut().poll(cx);
        if ended.is_ready() {
            *work = None;
        }
        ended
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            let span = mem::replace(&mut self.span, Span::none());
            let work = async move { drop(work.await) };
            self.tasks.spawn(self.name, work.instrument(span));
        }
    }
}
