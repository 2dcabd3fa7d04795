//! Recent entries of the audit log, so that repeats are not logged again.

use std::collections::HashMap;

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Pages refresh every few seconds; the audit log has one entry in this time.
const REPEATS_WITHIN: Duration = Duration::from_secs(60);

/// The number of remembered entries.
const REPEATS_MAX: usize = 1024;

/// Recent entries of the audit log.
#[derive(Debug, Default)]
pub(super) struct Repeats(Mutex<HashMap<String, Instant>>);

// === impl Repeats ===

impl Repeats {
    pub(super) fn is_first(&self, what: String) -> bool {
        let now = Instant::now();
        let mut known = self.0.lock();
        if known.len() >= REPEATS_MAX {
            known.retain(|_, at| now.duration_since(*at) < REPEATS_WITHIN);
        }
        if known.len() >= REPEATS_MAX {
            known.clear();
        }
        let before = known.get(&what);
        let is_first = before.is_none_or(|at| now.duration_since(*at) >= REPEATS_WITHIN);
        if is_first {
            known.insert(what, now);
        }
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_repeats_is_audited_once_a_minute() {
        let repeats = Repeats::default();
        assert!(repeats.is_first("a".to_owned()));
        assert!(!repeats.is_first("a".to_owned()) && repeats.is_first("b".to_owned()));
        tokio::time::advance(REPEATS_WITHIN).await;
        assert!(repeats.is_first("a".to_owned()));
    }
}
