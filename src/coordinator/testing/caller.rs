//! The caller of a wait, and what it was notified of.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use lockkeeper_access::Account;
use parking_lot::Mutex;

use crate::progress::{Progress, WaitState};

/// A caller that never goes away. Clones are one caller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller(Arc<State>);

#[derive(Debug, Default)]
struct State {
    account: Account,
    waits: AtomicBool,
    /// How many notifications it has no room for.
    busy_for: AtomicUsize,
    told: Mutex<Vec<WaitState>>,
}

// === impl Caller ===

impl Caller {
    /// It has no room for the next notifications.
    pub(crate) fn is_busy_for(&self, notifications: usize) {
        self.0.busy_for.store(notifications, Ordering::Relaxed);
    }

    /// Whether its wait was admitted.
    pub(crate) fn waits(&self) -> bool {
        self.0.waits.load(Ordering::Relaxed)
    }

    /// What it was notified of since the last time.
    pub(crate) fn told(&self) -> Vec<WaitState> {
        std::mem::take(&mut *self.0.told.lock())
    }
}

impl Progress for Caller {
    fn notify(&self, state: WaitState) -> bool {
        let busy_for = &self.0.busy_for;
        let left = busy_for.load(Ordering::Relaxed).checked_sub(1);
        if let Some(left) = left {
            busy_for.store(left, Ordering::Relaxed);
            return false;
        }
        self.0.told.lock().push(state);
        true
    }

    async fn gone(&self) {
        pending::<()>().await;
    }

    fn account(&self) -> &Account {
        &self.0.account
    }

    fn begin_wait(&mut self) {
        self.0.waits.store(true, Ordering::Relaxed);
    }
}
