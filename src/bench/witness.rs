//! What this process sees of a lock with its own eyes: who is inside, and the tokens of those who
//! were. It trusts no coordinator.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use lockkeeper_api::pb::LockMode;

/// What one who excludes all others adds to those inside, a reader adding one.
const ALONE: i64 = 1 << 32;

/// A lock as the holders in this process see it.
#[derive(Debug, Default)]
pub(super) struct Witness {
    inside: AtomicI64,
    token: AtomicU64,
    released_at: AtomicU64,
}

/// What witnesses have seen in a run.
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
        let others = self.inside.fetch_add(weight(mode), Ordering::AcqRel);
        if others >= ALONE || (others > 0 && !is_reader) {
            seen.overlaps.fetch_add(1, Ordering::Relaxed);
        }
        // Readers have the token of the last writer.
        if !is_reader && self.token.fetch_max(token, Ordering::AcqRel) >= token {
            seen.token_regressions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The release is about to be sent.
    pub(super) fn leave(&self, mode: LockMode, at: u64) {
        self.released_at.store(at, Ordering::Relaxed);
        self.inside.fetch_sub(weight(mode), Ordering::AcqRel);
    }

    /// When the one before gave the lock back; asked once for each hand-over.
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

    /// Whether nothing was seen that a lock must not do.
    pub(super) fn is_clean(&self) -> bool {
        [&self.overlaps, &self.token_regressions, &self.lost]
            .iter()
            .all(|it| it.load(Ordering::Relaxed) == 0)
    }
}
