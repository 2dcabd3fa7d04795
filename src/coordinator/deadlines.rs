//! The one queue of moments at which the watchdog has to look at something.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use crate::{session::Session, types::GrantKey};

/// What is due.
#[derive(Clone, Debug)]
pub(crate) enum Due {
    /// A grant: to renew, or lost.
    Grant(Arc<Session>, GrantKey),
    /// A session whose stream broke and that nobody has resumed.
    Session(Arc<Session>),
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(Instant, u64);

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    queue: Mutex<BTreeMap<Ticket, Due>>,
    next: AtomicU64,
    earlier: Notify,
}

// === impl Ticket ===

impl Ticket {
    pub(crate) fn at(self) -> Instant {
        self.0
    }
}

// === impl Deadlines ===

impl Deadlines {
    pub(crate) fn insert(&self, at: Instant, due: Due) -> Ticket {
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

    /// Takes all that is due; waits until something is.
    pub(crate) async fn due(&self) -> Vec<Due> {
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
