//! The witness of mutual exclusion: the holders of a lock in this process, and their tokens. It
//! trusts no coordinator.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use lockkeeper_api::pb::LockMode;

/// The weight of an exclusive holder; a reader weighs one.
const ALONE: i64 = 1 << 32;

/// A lock and its holders in this process.
#[derive(Debug, Default)]
pub(super) struct Witness {
    holders: AtomicI64,
    token: AtomicU64,
    released_at: AtomicU64,
}

/// The violations and grants in a run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) grants: AtomicU64,
    pub(super) overlaps: AtomicU64,
    pub(super) token_regressions: AtomicU64,
    pub(super) lost: AtomicU64,
}

// === impl Witness ===

impl Witness {
    /// A grant was received.
    pub(super) fn enter(&self, mode: LockMode, token: u64, seen: &Seen) {
        seen.grants.fetch_add(1, Ordering::Relaxed);
        let is_reader = mode == LockMode::Read;
        let others = self.holders.fetch_add(weight(mode), Ordering::AcqRel);
        if others >= ALONE || (others > 0 && !is_reader) {
            seen.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        // Readers have the last writer's token.
        if !is_reader && self.token.fetch_max(token, Ordering::AcqRel) >= token {
            seen.token_regressions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The release is about to be sent.
    pub(super) fn leave(&self, mode: LockMode, at: u64) {
        self.released_at.store(at, Ordering::Relaxed);
        self.holders.fetch_sub(weight(mode), Ordering::AcqRel);
    }

    /// When the previous holder released the lock; once for each hand-over.
    pub(super) fn take_released_at(&self) -> Option<u64> {
        let at = self.released_at.swap(0, Ordering::Relaxed);
        (at > 0).then_some(at)
    }
}

fn weight(mode: LockMode) -> i64 {
    if mode == LockMode::Read { 1 } else { ALONE }
}

// === impl Seen ===

impl Seen {
    pub(super) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there was no violation.
    pub(super) fn is_clean(&self) -> bool {
        [&self.overlaps, &self.token_regressions, &self.lost]
            .iter()
            .all(|it| it.load(Ordering::Relaxed) == 0)
    }
}
