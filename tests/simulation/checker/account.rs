//! What one owner knows of one lock.

use std::collections::BTreeSet;

use crate::history::{Millis, Op};

/// What one owner knows of one lock.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) belief: Option<Belief>,
    /// Holds that the owner knows of, less those that it is giving back.
    pub(super) count: i64,
    /// Operations without an answer yet.
    pub(super) flying: BTreeSet<Op>,
    pub(super) releases: i64,
    /// Something was left in doubt; until then counts are not compared.
    pub(super) doubt_until: Millis,
    /// The next answer says what the count is.
    pub(super) unsure: bool,
    pub(super) lost: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Belief {
    pub(super) token: u64,
    pub(super) from: Millis,
    pub(super) safe_until: Millis,
    /// Somebody renews it, so it lasts until something is heard.
    pub(super) kept_alive: bool,
}
