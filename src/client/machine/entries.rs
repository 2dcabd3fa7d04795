//! What the table of holdings consists of.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{Error, holding::Holding, validity::Validity};

/// One grant, which several guards may share.
#[derive(Debug)]
pub(super) struct HoldingEntry {
    pub(super) holding: Holding,
    pub(super) validity: Arc<Validity>,
    /// Empty once it is being released: its loss is not reported then.
    pub(super) guards: Vec<u64>,
    /// `None` for a lease that was given with the request.
    pub(super) renew_at: Option<Instant>,
    pub(super) is_renewing: bool,
}

/// What one guard holds.
#[derive(Debug)]
pub(super) struct GuardEntry {
    pub(super) ids: Vec<u64>,
    /// As they were acquired, in the order of `ids`.
    pub(super) holdings: Vec<Holding>,
    pub(super) unconfirmed: Option<Unconfirmed>,
    /// Why the first part of it was lost.
    pub(super) loss: Option<Error>,
}

/// A guard that is delivered once all of it was renewed: the answer took so long that it does not
/// say until when it is valid.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    pub(super) op_id: u64,
    /// Those that are not renewed yet.
    pub(super) left: Vec<u64>,
}

// === impl HoldingEntry ===

impl HoldingEntry {
    /// Whether the hold that this guard once acquired is none of this grant's. A release names no
    /// fencing token, so it would take a hold that another guard has.
    pub(super) fn lacks_hold_of(&self, guard: u64, acquired: &Holding) -> bool {
        let is_newer = acquired.is_older_than(&self.holding);
        let holds = self.holding.hold_count();
        if self.guards.contains(&guard) {
            is_newer && holds < self.guards.len()
        } else {
            // The coordinator may still count a hold that was lost because its end had passed.
            is_newer || holds <= self.guards.len()
        }
    }
}
