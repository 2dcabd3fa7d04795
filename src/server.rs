//! Runs a coordinator. A stub until the layers below are wired.

use crate::config::Settings;

/// Serves until the process is asked to stop. Fails if it cannot start.
#[expect(clippy::unused_async, reason = "a stub")]
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    anyhow::bail!("not wired yet: {}", settings.server.listen)
}
