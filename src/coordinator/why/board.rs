//! What a coordinator knows of its own waits, for all that ask.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    waiters::line::Waiter,
    why::wait::{Party, State, WaitId, Waits},
};

/// Where the detector writes what it sees.
#[derive(Debug)]
pub(crate) struct Board {
    /// Tells the waits of this coordinator from those of others.
    pub(crate) coordinator: Arc<str>,
    own: Mutex<Arc<Own>>,
    deadlocks: Mutex<BTreeSet<State>>,
}

/// The waits of this coordinator that are old enough to be shared.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) coordinator: Arc<str>,
    pub(crate) parties: BTreeMap<Party, Waits>,
    /// By ticket.
    pub(crate) waiters: HashMap<u64, Arc<Waiter>>,
    /// Owners and sessions left out because there are too many.
    pub(crate) left_out: usize,
    pub(crate) at: Instant,
}

// === impl Board ===

impl Board {
    pub(crate) fn new() -> Self {
        let coordinator = format!("{:016x}", rand::random::<u64>()).into();
        Self {
            own: Mutex::new(Arc::new(Own::none(&coordinator))),
            coordinator,
            deadlocks: Mutex::default(),
        }
    }

    pub(crate) fn own(&self) -> Arc<Own> {
        Arc::clone(&self.own.lock())
    }

    pub(crate) fn publish(&self, own: &Arc<Own>) {
        *self.own.lock() = Arc::clone(own);
    }

    /// Whether the detector has named this cycle as a deadlock that still is one.
    pub(crate) fn is_deadlock(&self, state: &State) -> bool {
        self.deadlocks.lock().contains(state)
    }

    /// These are deadlocks now. Returns the new ones.
    pub(crate) fn name(&self, deadlocks: BTreeSet<State>) -> BTreeSet<State> {
        let mut known = self.deadlocks.lock();
        let new = deadlocks.difference(&known).cloned().collect();
        *known = deadlocks;
        new
    }
}

// === impl Own ===

impl Own {
    pub(crate) fn none(coordinator: &Arc<str>) -> Self {
        Self {
            coordinator: Arc::clone(coordinator),
            parties: BTreeMap::new(),
            waiters: HashMap::new(),
            left_out: 0,
            at: Instant::now(),
        }
    }

    /// The waiter of a wait, if it is of this coordinator.
    pub(crate) fn waiter(&self, (coordinator, ticket): &WaitId) -> Option<&Arc<Waiter>> {
        let is_here = *coordinator == self.coordinator;
        is_here.then(|| self.waiters.get(ticket))?
    }
}
