//! Durations, and what is measured.

use std::time::Duration;

use lockkeeper_base::tasks::spawn_detached;
use tokio::{task::JoinHandle, time::Instant};

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Starts something and says when it was done, however busy the test is meanwhile.
pub fn timed<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<(Instant, T)> {
    spawn_detached("timed", async move {
        let done = work.await;
        (Instant::now(), done)
    })
}

/// Shows a time that a test has measured, with `--nocapture`.
pub fn measured(what: &str, time: Duration) {
    say(&format!("measured: {what}: {time:?}"));
}

/// Shows something, with `--nocapture`.
#[expect(clippy::print_stderr, reason = "to be seen by the one that runs it")]
pub fn say(line: &str) {
    eprintln!("{line}");
}
