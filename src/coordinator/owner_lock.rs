//! A mutex for each owner and lock. Attempts and releases of one owner on one lock run one by one,
//! in order of arrival, so that the owner's holds are always known. (The `lockable` crate has no
//! owned guard for its pool, and an owner lock must outlive the call that took it.)

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dashmap::{DashMap, Entry};
use foldhash::fast::RandomState;
use tokio::{sync::oneshot, time::timeout};

use crate::types::{LockName, Owner};

/// One lock and one owner's field.
type Key = (LockName, Arc<str>);

type Queue = VecDeque<oneshot::Sender<OwnerLock>>;

/// A place in the queue.
type Turn = oneshot::Receiver<OwnerLock>;

/// Room for this many owner locks is kept when none is taken.
const ROOM_KEPT: usize = 1024;

/// The owner locks of one coordinator.
#[derive(Debug)]
pub(crate) struct OwnerLocks {
    /// The calls that wait for each owner lock.
    taken: DashMap<Key, Queue, RandomState>,
    count: AtomicUsize,
    /// The largest count since there was room for few.
    most: AtomicUsize,
}

/// An owner lock, held until dropped.
#[derive(Debug)]
pub(crate) struct OwnerLock {
    owner_locks: Arc<OwnerLocks>,
    /// None once it was passed on.
    key: Option<Key>,
}

// === impl OwnerLocks ===

impl OwnerLocks {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            taken: DashMap::default(),
            count: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }

    fn added(&self) {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(count, Ordering::Relaxed);
    }

    /// Gives back the room for many once none is left: all grants of many sessions may have ended
    /// at once.
    fn removed(&self) {
        let was_last = self.count.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_last && self.most.load(Ordering::Relaxed) > ROOM_KEPT {
            self.most.store(0, Ordering::Relaxed);
            self.taken.shrink_to_fit();
        }
    }

    /// Waits for the owner lock. May be dropped at any instant.
    pub(crate) async fn take(self: &Arc<Self>, name: &LockName, owner: &Owner) -> OwnerLock {
        match self.take_or_queue(name, owner) {
            Ok(owner_lock) => owner_lock,
            Err(turn) => self.after(turn).await,
        }
    }

    /// The same, for at most this time; none after it.
    pub(crate) async fn take_within(
        self: &Arc<Self>,
        at_most: Duration,
        name: &LockName,
        owner: &Owner,
    ) -> Option<OwnerLock> {
        match self.take_or_queue(name, owner) {
            Ok(owner_lock) => Some(owner_lock),
            // Boxed, as it is rare: every operation would carry its state otherwise.
            Err(turn) => Box::pin(timeout(at_most, self.after(turn))).await.ok(),
        }
    }

    /// The owner lock if it is free, otherwise a turn.
    fn take_or_queue(self: &Arc<Self>, name: &LockName, owner: &Owner) -> Result<OwnerLock, Turn> {
        let key = (name.clone(), owner.shared_field());
        match self.taken.entry(key.clone()) {
            Entry::Vacant(free) => {
                let _entry = free.insert(Queue::new());
                self.added();
                Ok(OwnerLock {
                    owner_locks: Arc::clone(self),
                    key: Some(key),
                })
            }
            Entry::Occupied(mut taken) => {
                let (sender, turn) = oneshot::channel();
                let queue = taken.get_mut();
                // An undo may take long, and its owner may try and give up all the time.
                while queue.back().is_some_and(oneshot::Sender::is_closed) {
                    queue.pop_back();
                }
                queue.push_back(sender);
                Err(turn)
            }
        }
    }

    async fn after(self: &Arc<Self>, turn: Turn) -> OwnerLock {
        // A dropped owner lock is passed on, so the sender cannot vanish without one.
        turn.await.unwrap_or_else(|_| OwnerLock {
            owner_locks: Arc::clone(self),
            key: None,
        })
    }
}

// === impl OwnerLock ===

impl Drop for OwnerLock {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        loop {
            let all = &self.owner_locks.taken;
            if all.remove_if(&key, |_, queue| queue.is_empty()).is_some() {
                self.owner_locks.removed();
                return;
            }
            // The next holder may drop its lock at once, which looks here again.
            let next = all.get_mut(&key).and_then(|mut queue| queue.pop_front());
            let Some(next) = next else { return };
            let owner_lock = OwnerLock {
                owner_locks: Arc::clone(&self.owner_locks),
                key: Some(key.clone()),
            };
            match next.send(owner_lock) {
                Ok(()) => return,
                // That waiter has given up; the lock it was sent must not pass itself on as well.
                Err(mut owner_lock) => owner_lock.key = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::types::tests::limits;

    #[test]
    fn turns_come_in_order_and_pass_over_those_who_gave_up() {
        let owner_locks = OwnerLocks::new();
        let name = LockName::parse("a", &limits()).unwrap();
        let owner = Owner::sessionless("o", &limits()).unwrap();
        let first = owner_locks.take(&name, &owner).now_or_never().unwrap();
        let mut given_up = Box::pin(owner_locks.take(&name, &owner));
        let mut second = Box::pin(owner_locks.take(&name, &owner));
        assert!(given_up.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        let other = Owner::sessionless("p", &limits()).unwrap();
        assert!(owner_locks.take(&name, &other).now_or_never().is_some());
        drop(given_up);
        drop(first);
        let second = second.now_or_never().unwrap();
        assert!(owner_locks.take(&name, &owner).now_or_never().is_none());
        drop(second);
        assert!(owner_locks.taken.is_empty());
    }

    #[test]
    fn those_who_give_up_take_no_room() {
        let owner_locks = OwnerLocks::new();
        let name = LockName::parse("a", &limits()).unwrap();
        let owner = Owner::sessionless("o", &limits()).unwrap();
        let _first = owner_locks.take(&name, &owner).now_or_never().unwrap();
        let mut stays = Box::pin(owner_locks.take(&name, &owner));
        assert!(stays.as_mut().now_or_never().is_none());
        for _ in 0..9 {
            let gives_up = owner_locks.take(&name, &owner).now_or_never();
            assert!(gives_up.is_none());
        }
        let key = (name.clone(), owner.shared_field());
        assert!(owner_locks.taken.get(&key).unwrap().len() <= 2);
    }

    #[test]
    fn the_room_for_many_is_given_back_when_none_is_left() {
        let owner_locks = OwnerLocks::new();
        let owner = Owner::sessionless("o", &limits()).unwrap();
        let take = |number: usize| {
            let name = LockName::parse(&number.to_string(), &limits()).unwrap();
            owner_locks.take(&name, &owner).now_or_never().unwrap()
        };
        let mut taken: Vec<_> = (0..10 * ROOM_KEPT).map(take).collect();
        taken.truncate(1);
        assert!(owner_locks.taken.capacity() >= 10 * ROOM_KEPT);
        drop(taken);
        assert!(owner_locks.taken.capacity() < ROOM_KEPT);
    }
}
