//! The one place that spawns tasks. They end by themselves, when what they serve is dropped.

use tracing::Instrument as _;

#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub(crate) fn spawn_detached<F>(name: &'static str, task: F)
where
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(task.instrument(tracing::debug_span!("task", name)));
}
