//! When to look at the entries of a table.

use std::collections::{BTreeSet, HashMap};

use tokio::time::Instant;

/// The instants at which entries have to be looked at, one for each id.
#[derive(Debug, Default)]
pub(super) struct Timers {
    queue: BTreeSet<(Instant, u64)>,
    by_id: HashMap<u64, Instant>,
}

// === impl Timers ===

impl Timers {
    /// Replaces the timer of this id.
    pub(super) fn set(&mut self, at: Instant, id: u64) {
        self.stop(id);
        self.by_id.insert(id, at);
        self.queue.insert((at, id));
    }

    pub(super) fn stop(&mut self, id: u64) {
        if let Some(at) = self.by_id.remove(&id) {
            self.queue.remove(&(at, id));
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<u64> {
        let (_, id) = self.queue.first().copied().filter(|(at, _)| *at <= now)?;
        self.stop(id);
        Some(id)
    }
}
