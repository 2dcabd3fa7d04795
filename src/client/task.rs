//! The one place that spawns tasks. A task ends when the value that it serves is dropped.

use tracing::Instrument as _;

#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub(crate) fn spawn_detached<F>(name: &'static str, task: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(task.instrument(tracing::debug_span!("task", name)));
}
