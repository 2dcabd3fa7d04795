//! The queue of moments at which the watchdog must look at something.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use parking_lot::Mutex;
use slab::Slab;
use tokio::{sync::Notify, time::Instant};

/// The room that is kept for the items of another moment.
const SPARE_MAX: usize = 64;

/// An entry of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// In milliseconds since the queue began.
    moment: u64,
    /// Where the item is among those of its moment.
    place: usize,
}

/// The queue. Items are due in whole milliseconds: renewals share few moments, so that an entry is
/// found without a search among all others.
#[derive(Debug)]
pub(crate) struct DeadlineQueue<T> {
    began: Instant,
    queue: Mutex<Queue<T>>,
    earlier: Notify,
}

#[derive(Debug)]
struct Queue<T> {
    moments: BTreeMap<u64, Slab<T>>,
    /// For the items of the next moment, which seldom are many.
    spare: Slab<T>,
    /// Nothing is due at an earlier moment any more, so that a ticket of one finds nothing.
    next: u64,
}

// === impl DeadlineQueue ===

impl<T> Default for DeadlineQueue<T> {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            queue: Mutex::new(Queue {
                moments: BTreeMap::new(),
                spare: Slab::new(),
                next: 0,
            }),
            earlier: Notify::default(),
        }
    }
}

impl<T> DeadlineQueue<T> {
    /// Adds an item that is due then, or up to a millisecond later.
    pub(crate) fn insert(&self, at: Instant, due: T) -> Ticket {
        let after = at.saturating_duration_since(self.began).as_nanos();
        let moment = u64::try_from(after.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let mut locked = self.queue.lock();
        let queue = &mut *locked;
        let moment = moment.max(queue.next);
        let first = queue.moments.first_key_value();
        let is_first = first.is_none_or(|(first, _)| moment < *first);
        let items = queue.moments.entry(moment);
        let items = items.or_insert_with(|| std::mem::take(&mut queue.spare));
        let place = items.insert(due);
        drop(locked);
        if is_first {
            self.earlier.notify_one();
        }
        Ticket { moment, place }
    }

    /// Removes an item, unless it was due before.
    pub(crate) fn remove(&self, ticket: Ticket) {
        let queue = &mut *self.queue.lock();
        if let Entry::Occupied(mut items) = queue.moments.entry(ticket.moment) {
            items.get_mut().try_remove(ticket.place);
            if items.get().is_empty() {
                let items = items.remove();
                if items.capacity() <= SPARE_MAX {
                    queue.spare = items;
                }
            }
        }
    }

    /// When an item is due.
    pub(crate) fn due_at(&self, ticket: Ticket) -> Instant {
        self.began + Duration::from_millis(ticket.moment)
    }

    /// Takes all items that are due; waits until one is.
    pub(crate) async fn due(&self) -> Vec<T> {
        loop {
            let next = {
                let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
                let mut queue = self.queue.lock();
                queue.next = now + 1;
                let later = queue.moments.split_off(&(now + 1));
                let due = std::mem::replace(&mut queue.moments, later);
                if !due.is_empty() {
                    let items = due.into_values().flatten().map(|(_, item)| item);
                    return items.collect();
                }
                queue.moments.keys().next().copied()
            };
            let next = next.map(|moment| self.began + Duration::from_millis(moment));
            tokio::select! {
                biased;
                () = self.earlier.notified() => {}
                () = tokio::time::sleep_until(next.unwrap_or(self.began)), if next.is_some() => {}
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.lock().moments.values().map(Slab::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn all_that_is_due_by_now_is_taken_in_the_order_of_its_moments() {
        let (queue, began) = (DeadlineQueue::default(), Instant::now());
        let second = queue.insert(began + MILLI * 2, "second");
        queue.insert(began + MILLI / 2, "first");
        queue.insert(began + MILLI * 3, "third");
        assert_eq!(queue.due_at(second), began + MILLI * 2);
        assert_eq!(queue.due().await, ["first"]);
        assert_eq!(began.elapsed(), MILLI, "not before it is due");
        tokio::time::advance(MILLI * 2).await;
        assert_eq!(queue.due().await, ["second", "third"]);
        assert_eq!(queue.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_what_is_added_and_is_due_earlier() {
        let (queue, began) = (DeadlineQueue::default(), Instant::now());
        queue.insert(began + MILLI * 100, "late");
        let add = async {
            tokio::time::sleep(MILLI * 10).await;
            queue.insert(began + MILLI * 20, "early");
        };
        let (due, ()) = tokio::join!(queue.due(), add);
        assert_eq!((due, began.elapsed()), (vec!["early"], MILLI * 20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_finds_its_own_item_or_nothing() {
        let (queue, began) = (DeadlineQueue::default(), Instant::now());
        let gone = queue.insert(began + MILLI, "a");
        queue.insert(began + MILLI, "b");
        queue.remove(gone);
        assert_eq!(queue.due().await, ["b"]);
        // Its moment is over, also for what should have been due by then.
        queue.insert(began, "c");
        queue.remove(gone);
        assert_eq!(queue.due().await, ["c"]);
        assert_eq!(began.elapsed(), MILLI * 2);
        let last = queue.insert(began + MILLI * 9, "d");
        queue.remove(last);
        assert_eq!(queue.len(), 0);
    }
}
