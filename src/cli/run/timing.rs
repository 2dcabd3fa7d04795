//! Until when a command may run: arithmetic only.
//!
//! Instants are of this machine's monotonic clock and count from before a request was sent, so
//! clocks need not be synchronised. That clock stops while the machine is suspended; only fencing
//! tokens help then.

use std::time::Duration;

use tokio::time::Instant;

const KILL_AFTER_DEFAULT: Duration = Duration::from_secs(5);
const MARGIN_MIN: Duration = Duration::from_millis(100);

/// How a lease is divided.
///
/// ```text
/// sent      renewed every third         TERM       KILL     valid no more
/// |-----------|-----------|-----...------|----------|----------|
///                                         kill_after   margin
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    kill_after: Duration,
    margin: Duration,
}

// === impl Timing ===

impl Timing {
    /// Fails if renewing every third of the lease leaves no time for a retry before TERM is due.
    pub(super) fn new(lease: Duration, kill_after: Option<Duration>) -> Result<Self, String> {
        let timing = Self {
            kill_after: kill_after.unwrap_or(KILL_AFTER_DEFAULT.min(lease / 6)),
            margin: MARGIN_MIN.max(lease / 10),
        };
        let spare = lease * 6 / 10;
        if timing.margin + timing.kill_after <= spare {
            return Ok(timing);
        }
        let lease = humantime::format_duration(lease);
        Err(match kill_after {
            Some(_) if timing.margin <= spare => {
                let most = humantime::format_duration(spare.saturating_sub(timing.margin));
                format!("--kill-after is too long for a lease of {lease} (at most {most})")
            }
            _ => format!("a lease of {lease} is too short to stop a command in time"),
        })
    }

    /// When TERM is due if the lock is surely valid until then.
    pub(super) fn term_at(&self, valid_until: Instant) -> Instant {
        valid_until - (self.margin + self.kill_after)
    }

    /// When KILL follows a TERM that is sent now.
    pub(super) fn kill_at(&self, now: Instant, valid_until: Instant) -> Instant {
        (now + self.kill_after).min(valid_until - self.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: f64) -> Duration {
        Duration::from_secs_f64(count)
    }

    #[test]
    fn a_lease_is_divided() {
        let sent = Instant::now() + seconds(100.0);
        let timing = Timing::new(seconds(30.0), None).unwrap();
        let until = sent + seconds(29.0);
        assert_eq!(timing.term_at(until), sent + seconds(21.0));
        let in_time = sent + seconds(10.0);
        assert_eq!(timing.kill_at(in_time, until), sent + seconds(15.0));
        let late = sent + seconds(25.0);
        assert_eq!(timing.kill_at(late, until), sent + seconds(26.0));
        let short = Timing::new(seconds(0.6), None).unwrap();
        let until = sent + seconds(0.6);
        assert_eq!(short.term_at(until), sent + seconds(0.4));
        assert_eq!(short.kill_at(late, until), sent + seconds(0.5));
    }

    #[test]
    fn too_little_validity_means_at_once() {
        let now = Instant::now() + seconds(100.0);
        let timing = Timing::new(seconds(30.0), None).unwrap();
        let until = now + seconds(1.0);
        assert!(timing.term_at(until) <= now && timing.kill_at(now, until) <= now);
    }

    #[test]
    fn what_leaves_no_time_is_refused() {
        let refused = |lease, kill_after: Option<f64>| {
            Timing::new(seconds(lease), kill_after.map(seconds)).unwrap_err()
        };
        assert_eq!(
            refused(30.0, Some(16.0)),
            "--kill-after is too long for a lease of 30s (at most 15s)"
        );
        assert_eq!(
            refused(0.1, None),
            "a lease of 100ms is too short to stop a command in time"
        );
        assert!(Timing::new(seconds(30.0), Some(seconds(15.0))).is_ok());
        assert!(Timing::new(seconds(30.0), Some(Duration::ZERO)).is_ok());
    }
}
