//! Histories: what clients did and were told, in order, by one clock.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use nix::time::{ClockId, clock_gettime};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::line::Line;

/// A lock, by its number.
pub type Name = usize;

/// One acquire and what came of it.
pub type Attempt = u64;

/// Since the beginning of the history.
pub type At = Duration;

/// Events of any kind, in the order of their times.
#[derive(Debug)]
pub struct Log<E> {
    begun: Instant,
    events: Mutex<Vec<E>>,
}

/// What a client did or was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: At,
    /// The client, by its number.
    pub client: usize,
    pub attempt: Attempt,
    pub name: Name,
    pub what: What,
}

/// What it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
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
    /// The stream broke; the holder still relies on the grant for this long.
    Broke(Duration),
    /// The session goes on at a coordinator, which still has the grant.
    Resumed,
    /// From here on the holder does nothing under the lock.
    ReleaseSent,
    /// It was given back.
    Released,
    /// It could not be given back, because it was not held any more: the holder has been told.
    Refused,
}

/// All events of a run against real servers.
pub struct History {
    log: Log<Event>,
    attempts: AtomicU64,
}

// === impl Log ===

impl<E> Log<E> {
    pub fn begin() -> Self {
        Self {
            begun: Instant::now(),
            events: Mutex::default(),
        }
    }

    pub fn now(&self) -> At {
        self.at(Instant::now())
    }

    pub fn at(&self, instant: Instant) -> At {
        instant.duration_since(self.begun)
    }

    /// Writes down what happens now.
    pub fn note(&self, event: impl FnOnce(At) -> E) {
        let mut events = self.events.lock();
        // Under the lock, so that the events are in order.
        let at = self.now();
        events.push(event(at));
    }

    /// Looks at what was written down so far.
    pub fn look<T>(&self, at: impl FnOnce(&[E]) -> T) -> T {
        at(&self.events.lock())
    }

    pub fn take(&self) -> Vec<E> {
        std::mem::take(&mut self.events.lock())
    }
}

// === impl History ===

impl History {
    pub fn begin() -> Self {
        Self {
            log: Log::begin(),
            attempts: AtomicU64::new(0),
        }
    }

    pub fn now(&self) -> At {
        self.log.now()
    }

    /// Writes down that an acquire is sent.
    pub fn ask(&self, client: usize, name: Name) -> Attempt {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
        self.note(client, attempt, name, What::Asked);
        attempt
    }

    /// Writes down what happens now.
    pub fn note(&self, client: usize, attempt: Attempt, name: Name, what: What) {
        self.log.note(|at| Event {
            at,
            client,
            attempt,
            name,
            what,
        });
    }

    /// Adds what other programs wrote down of a lock, in lines as `tests/porcupine/README.md`
    /// specifies them, with times of the monotonic clock. They get numbers from `client` on.
    ///
    /// # Errors
    ///
    /// If a line says nothing of a lock.
    pub fn add(&self, lines: &str, client: usize, name: Name) -> Result<(), String> {
        let monotonic: Duration = clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map_err(|error| error.to_string())?
            .into();
        let begun = monotonic.saturating_sub(self.now());
        let (mut clients, mut attempts) = (Vec::new(), HashMap::new());
        let mut events = self.log.events.lock();
        for line in lines.lines() {
            let line: Line = serde_json::from_str(line).map_err(|why| format!("{line}: {why}"))?;
            let (at, what) = line.event()?;
            let known = clients.iter().position(|it| *it == line.client);
            let number = known.unwrap_or_else(|| {
                clients.push(line.client);
                clients.len() - 1
            });
            let next = || self.attempts.fetch_add(1, Ordering::Relaxed);
            events.push(Event {
                at: at.saturating_sub(begun),
                client: client + number,
                attempt: *attempts.entry((number, line.attempt)).or_insert_with(next),
                name,
                what,
            });
        }
        events.sort_by_key(|it| it.at);
        Ok(())
    }

    pub fn grants(&self) -> usize {
        let events = self.log.events.lock();
        let granted = |event: &&Event| matches!(event.what, What::Granted { .. });
        events.iter().filter(granted).count()
    }

    pub fn take(&self) -> Vec<Event> {
        self.log.take()
    }
}
