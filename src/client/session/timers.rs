//! When to look at the entries of a table.

use std::collections::BTreeSet;

use tokio::time::Instant;

/// The instants at which entries have to be looked at, by their ids. Timers are never removed: when
/// one is due its entry may have changed, or be gone.
#[derive(Default)]
pub(super) struct Timers(BTreeSet<(Instant, u64)>);

// === impl Timers ===

impl Timers {
    pub(super) fn set(&mut self, at: Instant, id: u64) {
        self.0.insert((at, id));
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<u64> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop_first().map(|(_, id)| id)
    }
}
