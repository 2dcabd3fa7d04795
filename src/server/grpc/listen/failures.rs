//! Failures to accept, which may repeat in a tight loop.

use std::{io, time::Duration};

use tokio::time::Instant;
use tracing::warn;

use super::metrics::{Metrics, Refused};

/// The pause after a failure, for instance until a file descriptor is free.
const PAUSE: Duration = Duration::from_millis(50);

/// The interval of log entries on failures.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// The failures of one listener.
#[derive(Debug)]
pub(super) struct Failures {
    metrics: Metrics,
    told_at: Option<Instant>,
    untold: u64,
}

// === impl Failures ===

impl Failures {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            told_at: None,
            untold: 0,
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
        self.untold += 1;
        let is_time = self.told_at.is_none_or(|at| at.elapsed() >= TOLD_EVERY);
        is_time.then(|| {
            self.told_at = Some(Instant::now());
            std::mem::take(&mut self.untold)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_that_come_one_after_the_other_are_told_together() {
        let mut failures = Failures::new(Metrics::default());
        assert_eq!(failures.due(), Some(1), "the first at once");
        let mut told = Vec::new();
        for _ in 0..400 {
            tokio::time::sleep(PAUSE).await;
            told.extend(failures.due());
        }
        assert_eq!(told, [200, 200]);
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
