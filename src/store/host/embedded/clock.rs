//! The store's clock. It runs on tokio's, which tests pause and advance, and can be stepped as the
//! wall clock of a server can.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

/// A wall clock in microseconds since the Unix epoch: an origin, plus the time that tokio has
/// counted since, plus the steps made. Clones are one clock.
#[derive(Clone, Debug)]
pub struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    origin: Instant,
    origin_micros: i64,
    stepped_micros: AtomicI64,
}

// === impl Clock ===

impl Clock {
    /// A clock that shows the machine's wall time. It is read once: later steps of the machine's
    /// clock do not reach the store.
    #[expect(
        clippy::disallowed_methods,
        reason = "numbers that scripts derive from the time must exceed those of earlier processes"
    )]
    pub fn system() -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self::starting_at(micros(since_epoch.unwrap_or_default()))
    }

    /// A clock that shows `micros` now, so that a test sees the same times in every run.
    pub fn starting_at(micros: i64) -> Self {
        let shared = Shared {
            origin: Instant::now(),
            origin_micros: micros,
            stepped_micros: AtomicI64::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Puts the clock forward. As on a Redis server, whose times to live run on the wall clock,
    /// keys expire that much earlier.
    pub fn step_forward(&self, by: Duration) {
        self.shared
            .stepped_micros
            .fetch_add(micros(by), Ordering::Relaxed);
    }

    /// Puts the clock back; keys expire that much later.
    pub fn step_back(&self, by: Duration) {
        self.shared
            .stepped_micros
            .fetch_sub(micros(by), Ordering::Relaxed);
    }

    /// What the clock shows.
    pub fn now_micros(&self) -> i64 {
        let shared = &self.shared;
        shared.origin_micros
            + micros(shared.origin.elapsed())
            + shared.stepped_micros.load(Ordering::Relaxed)
    }
}

/// Saturates after 292,000 years.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn follows_tokio_and_steps() {
        let clock = Clock::starting_at(1_000_000);
        tokio::time::advance(Duration::from_millis(5)).await;
        assert_eq!(clock.now_micros(), 1_005_000);
        clock.clone().step_forward(Duration::from_secs(1));
        assert_eq!(clock.now_micros(), 2_005_000);
        clock.step_back(Duration::from_secs(2));
        assert_eq!(clock.now_micros(), 5_000);
    }

    #[tokio::test]
    async fn system_is_after_2020() {
        assert!(Clock::system().now_micros() > 1_577_836_800_000_000);
    }
}
