//! Failures to accept, which may repeat in a tight loop.

use std::{io, time::Duration};

use tokio::time::Instant;
use tracing::warn;

use super::metrics::{Metrics, Refused};

/// The pause after a failure, for instance until a file descriptor is free.
const PAUSE: Duration = Duration::from_millis(50);

/// The interval of log entries on failures.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The failures of one listener.
#[derive(Debug)]
pub(super) struct Failures {
    metrics: Metrics,
    logged_at: Option<Instant>,
    unlogged: u64,
}

// === impl Failures ===

impl Failures {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            logged_at: None,
            unlogged: 0,
        }
    }

    /// Pauses, except for a client that disconnected. Other failures may be a lack of file
    /// descriptors or memory, which passes.
    pub(super) async fn pause(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::ConnectionAborted {
            return;
        }
        self.metrics.refused(Refused::Accept);
        if let Some(times) = self.due() {
            warn!(%error, times, "cannot accept connections");
        }
        tokio::time::sleep(PAUSE).await;
    }

    /// The number of failures to log, if a log entry is due.
    fn due(&mut self) -> Option<u64> {
        self.unlogged += 1;
        let is_time = self.logged_at.is_none_or(|at| at.elapsed() >= LOG_INTERVAL);
        is_time.then(|| {
            self.logged_at = Some(Instant::now());
            std::mem::take(&mut self.unlogged)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn repeated_failures_are_logged_together() {
        let mut failures = Failures::new(Metrics::default());
        assert_eq!(failures.due(), Some(1), "the first at once");
        let mut logged = Vec::new();
        for _ in 0..400 {
            tokio::time::sleep(PAUSE).await;
            logged.extend(failures.due());
        }
        assert_eq!(logged, [200, 200]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_paused_after_and_a_client_that_has_gone_is_none() {
        let mut failures = Failures::new(Metrics::default());
        let begun = Instant::now();
        failures
            .pause(&io::ErrorKind::ConnectionAborted.into())
            .await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        failures.pause(&io::ErrorKind::OutOfMemory.into()).await;
        assert!(begun.elapsed() >= PAUSE);
    }
}
