//! Denied calls without credentials, in the audit log: one entry per address, reason and minute,
//! however many calls there are, and however long the names in them.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    audit::{Audited, shortened},
    identity::Identity,
};

/// How long the calls of an address are counted before they are logged again.
const INTERVAL: Duration = Duration::from_secs(60);

/// Addresses that are counted apart. Those beyond share one entry.
const ADDRESSES_MAX: usize = 1024;

/// Reasons of an address that are counted apart: behind a proxy, one wrong client must not hide
/// another. Some name what the caller has shown, so that there may be any number; those beyond
/// share the last entry.
const REASONS_MAX: usize = 4;

/// Bytes of a text that its caller chose, or of a reason that may name it.
const NAME_BYTES_MAX: usize = 128;

/// The addresses whose calls were denied lately. None: of a Unix-domain socket, or beyond the
/// number.
#[derive(Debug, Default)]
pub(super) struct Denials(Mutex<HashMap<Option<IpAddr>, Vec<Counted>>>);

/// The calls since the last entry.
#[derive(Debug)]
struct Counted {
    since: Instant,
    calls: u64,
    last: Denied,
}

#[derive(Debug)]
struct Denied {
    peer: Option<SocketAddr>,
    operation: String,
    reason: String,
}

// === impl Denials ===

impl Denials {
    /// Logs a call, or counts it for the next entry.
    pub(super) fn denied(&self, peer: Option<SocketAddr>, operation: &str, reason: &str) {
        let mut known = self.0.lock();
        let address = peer.map(|peer| peer.ip());
        let is_kept = known.contains_key(&address) || known.len() < ADDRESSES_MAX;
        let address = address.filter(|_| is_kept);
        let last = Denied {
            peer,
            operation: shortened(operation, NAME_BYTES_MAX).to_owned(),
            reason: shortened(reason, NAME_BYTES_MAX).to_owned(),
        };
        let reasons = known.entry(address).or_default();
        let at = reasons.iter().position(|it| it.last.reason == last.reason);
        if let Some(counted) = reasons.get_mut(at.unwrap_or(REASONS_MAX - 1)) {
            counted.calls += 1;
            counted.last = last;
            return;
        }
        last.log(1);
        reasons.push(Counted {
            since: Instant::now(),
            calls: 0,
            last,
        });
    }

    /// Logs the calls that have been counted for long enough.
    pub(super) fn flush(&self) {
        self.0.lock().retain(|_, reasons| {
            reasons.retain_mut(Counted::flush);
            !reasons.is_empty()
        });
    }
}

// === impl Counted ===

impl Counted {
    /// Logs the calls if they have been counted for long enough. False if there were none.
    fn flush(&mut self) -> bool {
        if self.since.elapsed() < INTERVAL {
            return true;
        }
        if self.calls == 0 {
            return false;
        }
        self.last.log(self.calls);
        (self.since, self.calls) = (Instant::now(), 0);
        true
    }
}

// === impl Denied ===

impl Denied {
    fn log(&self, calls: u64) {
        let audited = Audited {
            identity: &Identity::anonymous(),
            peer: self.peer,
            operation: &self.operation,
            name: "",
            reason: &self.reason,
        };
        audited.denied_times(calls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entries::entries;

    #[test]
    fn a_name_is_cut_between_two_characters() {
        let name = format!("a{}", "ä".repeat(100));
        let logged = entries(|| Denials::default().denied(None, &name, "why"));
        let [entry] = logged.as_slice() else {
            panic!("{logged:?}");
        };
        let cut = format!("a{}", "ä".repeat((NAME_BYTES_MAX - 1) / 2));
        assert_eq!(entry["operation"], cut);
        assert_eq!(entry["calls"], 1);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_an_address_are_counted_for_a_minute() {
        let denials = Denials::default();
        let peer = |port| Some(SocketAddr::from(([10, 0, 0, 1], port)));
        for port in 1..=3 {
            denials.denied(peer(port), &"ä".repeat(100), "why");
        }
        let calls = || {
            let known = denials.0.lock();
            known.values().flatten().map(|it| it.calls).sum::<u64>()
        };
        assert_eq!(calls(), 2, "the first was logged at once");
        let address = Some([10, 0, 0, 1].into());
        let length = denials.0.lock()[&address][0].last.operation.len();
        assert_eq!(length, NAME_BYTES_MAX);
        denials.flush();
        assert_eq!(calls(), 2, "too early");
        tokio::time::advance(INTERVAL).await;
        denials.flush();
        assert_eq!((calls(), denials.0.lock().len()), (0, 1));
        tokio::time::advance(INTERVAL).await;
        denials.flush();
        assert_eq!(denials.0.lock().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_beyond_the_number_share_one_entry() {
        let denials = Denials::default();
        for number in 0..2 * u32::try_from(ADDRESSES_MAX).unwrap() {
            let peer = SocketAddr::from((number.to_be_bytes(), 1));
            denials.denied(Some(peer), "x", "why");
        }
        assert_eq!(denials.0.lock().len(), ADDRESSES_MAX + 1);
        let first = SocketAddr::from(([0, 0, 0, 0], 1));
        denials.denied(Some(first), "x", "why");
        let calls = denials.0.lock()[&Some(first.ip())][0].calls;
        assert_eq!(calls, 1, "a known one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_frequent_reason_of_an_address_does_not_hide_a_rare_one() {
        let denials = Denials::default();
        let denied = |reason: &str| denials.denied(Some(([10, 0, 0, 1], 1).into()), "x", reason);
        let logged = entries(|| {
            for reason in ["none", "none", "guessed", "none"] {
                denied(reason);
            }
        });
        let reasons: Vec<_> = logged.iter().map(|it| it["reason"].clone()).collect();
        assert_eq!(reasons, ["none", "guessed"]);
        for number in 0..100 {
            denied(&format!("key {number}"));
        }
        let known = denials.0.lock().values().flatten().count();
        assert_eq!(known, REASONS_MAX);
    }
}
