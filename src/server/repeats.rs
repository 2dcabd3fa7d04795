//! Recent entries of the audit log, so that repeats are not logged again.

use std::{collections::HashMap, time::Duration};

use lockkeeper_access::Audited;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Pages refresh every few seconds; the audit log has one entry in this time.
const REPEATS_WITHIN: Duration = Duration::from_secs(60);

/// The number of remembered entries.
const REPEATS_MAX: usize = 1024;

/// Recent entries of the audit log.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Mutex<HashMap<String, Instant>>);

// === impl Repeats ===

impl Repeats {
    /// Whether no such entry was logged within a minute.
    pub(crate) fn is_first(&self, asked: &Audited<'_>) -> bool {
        let peer = asked
            .peer
            .map_or_else(String::new, |it| it.ip().to_string());
        let identity = asked.identity.as_str();
        self.is_new([identity, &peer, asked.operation, asked.name()].join("\n"))
    }

    fn is_new(&self, what: String) -> bool {
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
    use lockkeeper_access::Identity;

    use super::*;

    #[test]
    fn a_long_name_is_not_remembered_as_a_whole() {
        let (repeats, name) = (Repeats::default(), "a".repeat(1 << 20));
        let asked = Audited {
            identity: &Identity::named("web"),
            peer: None,
            operation: "ListLocks",
            name: &name,
            reason: "",
        };
        assert!(repeats.is_first(&asked));
        assert!(repeats.0.lock().keys().all(|it| it.len() < 1024));
    }

    #[tokio::test(start_paused = true)]
    async fn what_repeats_is_audited_once_a_minute() {
        let repeats = Repeats::default();
        assert!(repeats.is_new("a".to_owned()));
        assert!(!repeats.is_new("a".to_owned()) && repeats.is_new("b".to_owned()));
        tokio::time::advance(REPEATS_WITHIN).await;
        assert!(repeats.is_new("a".to_owned()));
    }
}
