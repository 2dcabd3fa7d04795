//! Until when a command may run: arithmetic only.
//!
//! Instants are those of this machine's monotonic clock and are counted from before a request was sent, so no clock has to agree with the
//! store's. Time in which the whole machine sleeps is not counted by that clock; fencing tokens are what helps then.

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
    pub(super) lease: Duration,
    kill_after: Duration,
    margin: Duration,
}

/// Until when the lock is ours for sure, and what that means for the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) until: Instant,
    pub(super) term_at: Instant,
    pub(super) kill_at: Instant,
}

// === impl Timing ===

impl Timing {
    /// Fails if renewing every third of the lease would not leave time for one retry before TERM is due.
    pub(super) fn new(lease: Duration, kill_after: Option<Duration>) -> Result<Self, String> {
        let timing = Self {
            lease,
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

    pub(super) fn renew_interval(&self) -> Duration {
        self.lease / 3
    }

    /// When KILL follows a TERM sent now.
    pub(super) fn kill_at(&self, now: Instant) -> Instant {
        now + self.kill_after
    }

    /// What an answer says that was asked for at `sent_at`.
    pub(super) fn validity(&self, sent_at: Instant, valid_for: Duration) -> Validity {
        let killing = valid_for.saturating_sub(self.margin);
        Validity {
            until: sent_at + valid_for,
            term_at: sent_at + killing.saturating_sub(self.kill_after),
            kill_at: sent_at + killing,
        }
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
        let sent = Instant::now();
        let timing = Timing::new(seconds(30.0), None).unwrap();
        let validity = timing.validity(sent, seconds(29.0));
        assert_eq!(validity.until, sent + seconds(29.0));
        assert_eq!(validity.kill_at, sent + seconds(26.0));
        assert_eq!(validity.term_at, sent + seconds(21.0));
        let short = Timing::new(seconds(0.6), None).unwrap();
        let validity = short.validity(sent, seconds(0.6));
        assert_eq!(validity.kill_at, sent + seconds(0.5));
        assert_eq!(validity.term_at, sent + seconds(0.4));
    }

    #[test]
    fn too_little_validity_means_at_once() {
        let sent = Instant::now();
        let timing = Timing::new(seconds(30.0), None).unwrap();
        let validity = timing.validity(sent, seconds(1.0));
        assert_eq!((validity.term_at, validity.kill_at), (sent, sent));
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
