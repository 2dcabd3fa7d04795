//! The queue of moments at which the watchdog must look at something.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// An entry of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(Instant, u64);

/// The queue.
#[derive(Debug)]
pub(crate) struct DeadlineQueue<T> {
    queue: Mutex<BTreeMap<Ticket, T>>,
    next: AtomicU64,
    earlier: Notify,
}

// === impl Ticket ===

impl Ticket {
    pub(crate) fn at(self) -> Instant {
        self.0
    }
}

// === impl DeadlineQueue ===

impl<T> Default for DeadlineQueue<T> {
    fn default() -> Self {
        Self {
            queue: Mutex::default(),
            next: AtomicU64::default(),
            earlier: Notify::default(),
        }
    }
}

impl<T> DeadlineQueue<T> {
    pub(crate) fn insert(&self, at: Instant, due: T) -> Ticket {
        let ticket = Ticket(at, self.next.fetch_add(1, Ordering::Relaxed));
        let mut queue = self.queue.lock();
        let first = queue
            .first_key_value()
            .is_none_or(|(first, _)| ticket < *first);
        queue.insert(ticket, due);
        drop(queue);
        if first {
            self.earlier.notify_one();
        }
        ticket
    }

    pub(crate) fn remove(&self, ticket: Ticket) {
        self.queue.lock().remove(&ticket);
    }

    /// Takes all items that are due; waits until one is.
    pub(crate) async fn due(&self) -> Vec<T> {
        loop {
            let now = Instant::now();
            let next = {
                let mut queue = self.queue.lock();
                let later = queue.split_off(&Ticket(now, u64::MAX));
                let due = std::mem::replace(&mut *queue, later);
                if !due.is_empty() {
                    return due.into_values().collect();
                }
                queue.first_key_value().map(|(ticket, _)| ticket.0)
            };
            tokio::select! {
                biased;
                () = self.earlier.notified() => {}
                () = tokio::time::sleep_until(next.unwrap_or(now)), if next.is_some() => {}
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.lock().len()
    }
}
