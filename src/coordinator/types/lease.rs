//! The duration of a grant.

use std::time::Duration;

use tokio::time::Instant;

use super::{Invalid, Limits};

/// A time to live within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease(Duration);

/// The part of a lease that is not relied on, because clocks drift: 1 % and 2 ms, as in the Redlock
/// algorithm.
const DRIFT_DIVISOR: u32 = 100;

const DRIFT_MIN: Duration = Duration::from_millis(2);

// === impl Lease ===

impl Lease {
    /// Validates a lease.
    pub fn new(lease: Duration, limits: &Limits) -> Result<Self, Invalid> {
        Self::named("lease", lease, limits)
    }

    /// Validates a time to live that a request names differently.
    pub fn named(field: &'static str, lease: Duration, limits: &Limits) -> Result<Self, Invalid> {
        if lease < limits.lease_min || lease > limits.lease_max {
            let (min, max) = (limits.lease_min, limits.lease_max);
            return Err(Invalid::new(
                field,
                format!("must be from {} to {}", shown(min), shown(max)),
            ));
        }
        Ok(Self(lease))
    }

    /// The time to live.
    pub fn get(self) -> Duration {
        self.0
    }
}

/// Whole hours as such, other durations as Rust writes them.
fn shown(duration: Duration) -> String {
    const HOUR: u64 = 3600;
    match duration.as_secs() {
        seconds if seconds > 0 && duration == Duration::from_secs(seconds / HOUR * HOUR) => {
            format!("{}h", seconds / HOUR)
        }
        _ => format!("{duration:?}"),
    }
}

/// Until when a lease that the store granted after `sent_at` is certainly not over.
pub(crate) fn safe_until(sent_at: Instant, lease: Duration) -> Instant {
    sent_at + lease.saturating_sub(lease / DRIFT_DIVISOR + DRIFT_MIN)
}
