//! What one owner knows of one lock.

use std::collections::BTreeSet;

use crate::history::{Millis, Op};

/// What one owner knows of one lock.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) belief: Option<Belief>,
    /// Holds that the owner knows of, less those that it is giving back.
    pub(super) count: i64,
    /// Holds that it took itself and did not ask to give back. An answer that lies unread is
    /// counted by the store, but taken back when it is left.
    pub(super) own: i64,
    /// Until then a hold may be taken back that the owner was never told of.
    pub(super) left_until: Millis,
    /// Operations without an answer yet.
    pub(super) flying: BTreeSet<Op>,
    pub(super) releases: i64,
    /// Something was left in doubt; until then counts are not compared.
    pub(super) doubt_until: Millis,
    /// The next answer says what the count is.
    pub(super) unsure: bool,
    pub(super) lost: BTreeSet<u64>,
}

// === impl Account ===

impl Account {
    /// Whether all holds that the store counts may be taken back, because their answers were left.
    pub(super) fn is_left_with_nothing(&self, at: Millis) -> bool {
        at < self.left_until && self.own <= 0
    }

    /// Until when the owner may rely on the lock; none if it does not, or if anything is in doubt.
    pub(super) fn relied_until(&self, at: Millis) -> Option<Millis> {
        let is_sure = self.flying.len() <= 1 && !self.unsure;
        let is_settled = at >= self.doubt_until.max(self.left_until);
        let belief = self.belief.filter(|_| is_sure && is_settled)?;
        let ends = (!belief.kept_alive).then_some(belief.safe_until);
        Some(ends.unwrap_or(Millis::MAX))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Belief {
    pub(super) token: u64,
    pub(super) from: Millis,
    pub(super) safe_until: Millis,
    /// Somebody renews it, so it lasts until something is heard.
    pub(super) kept_alive: bool,
}
