//! Ids of attempts, and serials of read grants.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::RngExt as _;
use uuid::Uuid;

const MAX_SERIAL: u64 = 1 << 53;

/// Issues ids of attempts, unique among all coordinators.
#[derive(Debug)]
pub(crate) struct Attempts {
    prefix: String,
    next: AtomicU64,
    /// The first serial of read grants.
    serials: u64,
}

// === impl Attempts ===

impl Attempts {
    pub(crate) fn new() -> Self {
        Self {
            prefix: format!("{:x}-", Uuid::new_v4().as_u128()),
            next: AtomicU64::new(0),
            serials: rand::rng().random(),
        }
    }

    /// Stays below 2^53, because scripts count in floating point. Starts at random, so that the
    /// same owner at another coordinator hardly ever gets the same serial.
    pub(crate) fn fresh_serial(&self) -> u64 {
        let serial = self.serials.wrapping_add(self.next.load(Ordering::Relaxed));
        (serial % MAX_SERIAL).max(1)
    }

    /// Whether this coordinator has issued it.
    pub(crate) fn is_own(&self, id: &str) -> bool {
        id.starts_with(&self.prefix)
    }

    pub(crate) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        [&self.prefix, itoa::Buffer::new().format(number)].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_and_serials_are_those_of_one_attempt() {
        let (here, there) = (Attempts::new(), Attempts::new());
        let mut ids = BTreeSet::new();
        for attempts in [&here, &there] {
            let first = attempts.fresh_serial();
            for _ in 0..100 {
                let before = attempts.fresh_serial();
                assert!((1..MAX_SERIAL).contains(&before));
                let id = attempts.next();
                assert_eq!(
                    [&here, &there].map(|it| it.is_own(&id)),
                    [&here, &there].map(|it| std::ptr::eq(it, attempts))
                );
                assert!(ids.insert(id));
            }
            assert_ne!(attempts.fresh_serial(), first);
        }
        assert_eq!(ids.len(), 200);
        assert_ne!(here.fresh_serial(), there.fresh_serial());
    }
}
