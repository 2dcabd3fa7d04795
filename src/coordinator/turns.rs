//! One after the other: attempts and releases of one owner on one lock take turns, in the order they came, so that the holds the owner has are
//! always known. (The `lockable` crate has no owned guard for its pool, and a turn must outlive the call that took it.)

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::types::{LockName, Owner};

/// Turns are looked up under the lock of one of these many shards.
const SHARDS: usize = 64;

/// One owner's field and one lock.
type Key = (LockName, Arc<str>);

type Queue = VecDeque<oneshot::Sender<Turn>>;

/// The turns of one coordinator.
#[derive(Debug)]
pub(crate) struct Turns {
    shards: Vec<Mutex<HashMap<Key, Queue>>>,
    hasher: RandomState,
}

/// Lasts until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    /// None once it was passed on.
    key: Option<Key>,
}

// === impl Turns ===

impl Turns {
    pub(crate) fn new() -> Arc<Self> {
        let shards = std::iter::repeat_with(Mutex::default)
            .take(SHARDS)
            .collect();
        Arc::new(Self {
            shards,
            hasher: RandomState::new(),
        })
    }

    /// Waits for the owner's turn on the lock. May be dropped at any instant.
    pub(crate) async fn take(self: &Arc<Self>, name: &LockName, owner: &Owner) -> Turn {
        let key = (name.clone(), owner.shared_field());
        let next = {
            let mut shard = self.shard(&key).lock();
            match shard.get_mut(&key) {
                None => {
                    shard.insert(key.clone(), Queue::new());
                    return Turn {
                        turns: Arc::clone(self),
                        key: Some(key),
                    };
                }
                Some(queue) => {
                    let (sender, next) = oneshot::channel();
                    queue.push_back(sender);
                    next
                }
            }
        };
        // A turn that is dropped is passed on, so the sender cannot vanish without one.
        next.await.unwrap_or_else(|_| Turn {
            turns: Arc::clone(self),
            key: None,
        })
    }

    fn shard(&self, key: &Key) -> &Mutex<HashMap<Key, Queue>> {
        let hash = self.hasher.hash_one(key);
        &self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)]
    }
}

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        loop {
            let next = {
                let mut shard = self.turns.shard(&key).lock();
                let next = shard.get_mut(&key).and_then(VecDeque::pop_front);
                if next.is_none() {
                    shard.remove(&key);
                }
                next
            };
            let Some(next) = next else { return };
            let turn = Turn {
                turns: Arc::clone(&self.turns),
                key: Some(key.clone()),
            };
            match next.send(turn) {
                Ok(()) => return,
                // That one has given up; what it was sent must not pass itself on as well.
                Err(mut turn) => turn.key = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::coordinator::types::tests::limits;

    #[test]
    fn turns_come_in_order_and_pass_over_those_who_gave_up() {
        let turns = Turns::new();
        let name = LockName::parse("a", &limits()).unwrap();
        let owner = Owner::sessionless("o", &limits()).unwrap();
        let first = turns.take(&name, &owner).now_or_never().unwrap();
        let mut given_up = Box::pin(turns.take(&name, &owner));
        let mut second = Box::pin(turns.take(&name, &owner));
        assert!(given_up.as_mut().now_or_never().is_none());
        assert!(second.as_mut().now_or_never().is_none());
        let other = Owner::sessionless("p", &limits()).unwrap();
        assert!(turns.take(&name, &other).now_or_never().is_some());
        drop(given_up);
        drop(first);
        let second = second.now_or_never().unwrap();
        assert!(turns.take(&name, &owner).now_or_never().is_none());
        drop(second);
        assert!(turns.shards.iter().all(|shard| shard.lock().is_empty()));
    }
}
