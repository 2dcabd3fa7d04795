//! What contenders saw, on the one monotonic clock of the one machine.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// A lock, by its number.
pub(crate) type Name = usize;

/// One acquire and what came of it.
pub(crate) type Attempt = u64;

/// Since the beginning of the history.
pub(crate) type At = Duration;

/// Something that a contender did or was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: At,
    pub(crate) attempt: Attempt,
    pub(crate) name: Name,
    pub(crate) what: What,
}

/// What it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An acquire was sent.
    Asked,
    /// It was told as granted.
    Granted { token: u64 },
    /// It ended without a grant: the store or the coordinator was away.
    Failed,
    /// Renewals fail; the grant can be relied on for this long.
    AtRisk(Duration),
    /// They succeed again.
    Recovered,
    /// The grant was told as lost.
    Lost,
    /// The stream broke.
    Broke,
    /// The session goes on at a coordinator, which still has the grant.
    Resumed,
    /// From here on the holder does nothing under the lock.
    ReleaseSent,
    /// It was given back.
    Released,
    /// It could not be given back, because it was not held any more: the holder has been told.
    Refused,
}

/// All events of a run.
pub(crate) struct History {
    begun: Instant,
    attempts: AtomicU64,
    events: Mutex<Vec<Event>>,
}

// === impl History ===

impl History {
    pub(crate) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            attempts: AtomicU64::new(0),
            events: Mutex::default(),
        }
    }

    /// Now.
    pub(crate) fn now(&self) -> At {
        self.begun.elapsed()
    }

    /// Writes down that an acquire is sent.
    pub(crate) fn ask(&self, name: Name) -> Attempt {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        self.note(attempt, name, What::Asked);
        attempt
    }

    /// Writes down what happens now.
    pub(crate) fn note(&self, attempt: Attempt, name: Name, what: What) {
        let mut events = self.events.lock();
        // Under the lock, so that the events are in order.
        let at = self.now();
        events.push(Event {
            at,
            attempt,
            name,
            what,
        });
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().clone()
    }
}
