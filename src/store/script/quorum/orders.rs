//! The order of the calls about a name, and the repairs that an acquire supersedes.
//!
//! A repair that gives back any hold of its owner, or lowers the holds to a number, would take what
//! the owner has acquired since. So it is not sent while the owner acquires the lock, and not any
//! more when a majority has granted it. An older hold may then be left at that store. It keeps
//! others out as the newer one does, is counted anew by the next acquire that knows the holds, and
//! goes with the last release or its lease.
//!
//! This concerns repairs of this process only: those of other coordinators are not known here, and
//! what has been sent is not taken back. A repair that finds the record of its attempt, or the
//! serial of a grant of which nothing is left, takes nothing newer and is not registered.

use std::{
    collections::{HashMap, hash_map::RandomState},
    future::poll_fn,
    hash::BuildHasher as _,
    pin::pin,
    sync::Arc,
    task::Poll,
};

use parking_lot::{Mutex, MutexGuard};

use crate::script::{CallError, Hold};

/// Names whose calls are put into one order share a lock with others.
const ORDERS: usize = 64;

/// Registered repairs of the holds of some names, by the hash of the hold.
type Order = HashMap<u64, Repairs>;

/// One lock for each of some names.
pub(super) struct Orders {
    orders: Vec<Mutex<Order>>,
    hasher: RandomState,
}

/// Those of one hold. Two holds with the same hash are taken for one, so a repair of one may be
/// left to its lease because of the other.
#[derive(Default)]
pub(super) struct Repairs {
    count: usize,
    next: u64,
    /// Those with smaller numbers are superseded.
    superseded: u64,
    /// Acquires of the hold that are under way.
    acquires: usize,
}

/// A hold's place among the orders.
#[derive(Clone, Copy)]
struct Place {
    order: usize,
    hold: u64,
}

/// A repair of one store, until it is dropped.
pub(super) struct Registered {
    orders: Arc<Orders>,
    place: Place,
    number: u64,
}

/// An acquire under way, of a hold that has registered repairs.
pub(super) struct Superseding<'a> {
    orders: &'a Orders,
    place: Place,
    /// The repairs with smaller numbers are older.
    older: u64,
}

// === impl Orders ===

impl Orders {
    pub(super) fn new() -> Self {
        Self {
            orders: (0..ORDERS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Calls about this name that are sent while it is locked reach all stores in the same order.
    pub(super) fn lock(&self, name: &str) -> MutexGuard<'_, Order> {
        self.orders[self.order_of(name)].lock()
    }

    fn order_of(&self, name: &str) -> usize {
        usize::try_from(self.hasher.hash_one(name) % ORDERS as u64).unwrap_or_default()
    }

    /// Registers a repair of one store.
    pub(super) fn register(self: &Arc<Self>, hold: Hold<'_>) -> Registered {
        let place = Place {
            order: self.order_of(hold.name),
            hold: self.hash(hold),
        };
        let mut order = self.orders[place.order].lock();
        let repairs = order.entry(place.hold).or_default();
        repairs.count += 1;
        repairs.next += 1;
        Registered {
            orders: Arc::clone(self),
            place,
            number: repairs.next - 1,
        }
    }

    /// Holds the registered repairs of this hold up; none if there are none.
    pub(super) fn acquire(&self, hold: Hold<'_>) -> Option<Superseding<'_>> {
        let order = self.order_of(hold.name);
        let mut repairs = self.orders[order].lock();
        if repairs.is_empty() {
            return None;
        }
        let place = Place {
            order,
            hold: self.hash(hold),
        };
        let repairs = repairs.get_mut(&place.hold)?;
        repairs.acquires += 1;
        Some(Superseding {
            orders: self,
            place,
            older: repairs.next,
        })
    }

    fn hash(&self, hold: Hold<'_>) -> u64 {
        self.hasher.hash_one((hold.name, hold.mode, hold.owner))
    }

    /// Changes the entry of a hold, and removes it when nothing is under way.
    fn change(&self, place: Place, change: impl FnOnce(&mut Repairs)) {
        let mut order = self.orders[place.order].lock();
        if let Some(repairs) = order.get_mut(&place.hold) {
            change(repairs);
            if repairs.count == 0 && repairs.acquires == 0 {
                order.remove(&place.hold);
            }
        }
    }
}

// === impl Registered ===

impl Registered {
    /// Whether its owner has acquired the lock since.
    pub(super) fn is_superseded(&self) -> bool {
        let order = self.orders.orders[self.place.order].lock();
        let repairs = order.get(&self.place.hold);
        repairs.is_some_and(|repairs| self.number < repairs.superseded)
    }

    /// Makes a call of the repair, unless its owner acquires the lock or has done so.
    pub(super) async fn send<T>(
        &self,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let mut call = pin!(call);
        // The first poll of a call sends it: before the votes of an acquire, or not at all.
        let sent = poll_fn(|context| {
            let order = self.orders.orders[self.place.order].lock();
            let repairs = order.get(&self.place.hold);
            let is_due = repairs.is_some_and(|it| it.acquires == 0 && self.number >= it.superseded);
            Poll::Ready(is_due.then(|| call.as_mut().poll(context)))
        });
        match sent.await {
            Some(Poll::Ready(answer)) => answer,
            Some(Poll::Pending) => call.await,
            None => Err(CallError::Unavailable("its owner acquires it".to_owned())),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.orders.change(self.place, |repairs| repairs.count -= 1);
    }
}

// === impl Superseding ===

impl Superseding<'_> {
    /// It is granted: what is older is superseded.
    pub(super) fn granted(self) {
        self.orders.change(self.place, |repairs| {
            repairs.superseded = repairs.superseded.max(self.older);
        });
    }
}

impl Drop for Superseding<'_> {
    fn drop(&mut self) {
        self.orders
            .change(self.place, |repairs| repairs.acquires -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Mode;

    const HOLD: Hold<'static> = Hold::new("a", Mode::Exclusive, "x");

    #[test]
    fn a_grant_supersedes_the_repairs_that_were_there_when_it_was_asked_for() {
        let orders = Arc::new(Orders::new());
        let older = orders.register(HOLD);
        let acquiring = orders.acquire(HOLD).unwrap();
        let newer = orders.register(HOLD);
        acquiring.granted();
        assert!(older.is_superseded() && !newer.is_superseded());
    }

    #[test]
    fn nothing_is_kept_of_a_hold_when_nothing_is_under_way() {
        let orders = Arc::new(Orders::new());
        assert!(orders.acquire(HOLD).is_none());
        for is_granted in [true, false] {
            let repairs = [orders.register(HOLD), orders.register(HOLD)];
            let acquiring = orders.acquire(HOLD).unwrap();
            drop(repairs);
            assert!(!orders.lock(HOLD.name).is_empty());
            if is_granted {
                acquiring.granted();
            } else {
                drop(acquiring);
            }
            assert!(orders.lock(HOLD.name).is_empty());
        }
    }
}
