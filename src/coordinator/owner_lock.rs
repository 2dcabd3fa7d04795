//! One after the other: attempts and releases of one owner on one lock take turns, in the order
//! they came, so that the holds the owner has are always known. (The `lockable` crate has no owned
//! guard for its pool, and a turn must outlive the call that took it.)

use std::{collections::VecDeque, sync::Arc};

use dashmap::{DashMap, Entry};
use foldhash::fast::RandomState;
use tokio::sync::oneshot;

use crate::types::{LockName, Owner};

/// One owner's field and one lock.
type Key = (LockName, Arc<str>);

type Queue = VecDeque<oneshot::Sender<Turn>>;

/// The turns of one coordinator.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Who waits behind a turn that is taken.
    taken: DashMap<Key, Queue, RandomState>,
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
        let taken = DashMap::default();
        Arc::new(Self { taken })
    }

    /// Waits for the owner's turn on the lock. May be dropped at any instant.
    pub(crate) async fn take(self: &Arc<Self>, name: &LockName, owner: &Owner) -> Turn {
        let key = (name.clone(), owner.shared_field());
        let next = match self.taken.entry(key.clone()) {
            Entry::Vacant(free) => {
                free.insert(Queue::new());
                return Turn {
                    turns: Arc::clone(self),
                    key: Some(key),
                };
            }
            Entry::Occupied(mut taken) => {
                let (sender, next) = oneshot::channel();
                taken.get_mut().push_back(sender);
                next
            }
        };
        // A turn that is dropped is passed on, so the sender cannot vanish without one.
        next.await.unwrap_or_else(|_| Turn {
            turns: Arc::clone(self),
            key: None,
        })
    }
}

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        loop {
            let Entry::Occupied(mut taken) = self.turns.taken.entry(key.clone()) else {
                return;
            };
            let Some(next) = taken.get_mut().pop_front() else {
                taken.remove();
                return;
            };
            // The next one may drop its turn at once, which looks here again.
            drop(taken);
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
    use crate::types::tests::limits;

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
        assert!(turns.taken.is_empty());
    }
}
