//! What happens to a session besides the ends of its operations.

use std::time::Duration;

use lockkeeper_api::pb::{Waiting, WaitingForPermits};
use tokio::sync::broadcast::{self, error::RecvError};

/// Events that may wait to be looked at; whoever looks later misses the oldest ones.
pub(super) const EVENTS_KEPT: usize = 64;

/// What happens to a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// Somebody waits for a lock: told at once, and when it changes.
    Waiting {
        /// The lock; of several one that is held by another.
        name: String,
        /// How things are.
        waiting: Waiting,
    },
    /// Somebody waits for permits: told at once, and when it changes.
    WaitingForPermits {
        /// The semaphore.
        name: String,
        /// How things are.
        waiting: WaitingForPermits,
    },
    /// The stream broke, or its coordinator stops. The session is being resumed; what it holds is
    /// valid as long as its guards say.
    Broken {
        /// What went wrong.
        cause: String,
    },
    /// It has a stream again. What was lost meanwhile is told to its guards.
    Resumed,
    /// Its coordinator says that renewals are failing: if that goes on, what it holds will be lost.
    AtRisk {
        /// What is left for what is lost first.
        valid_for: Duration,
    },
    /// Renewals succeed again.
    Recovered,
    /// It is over, and nothing is held.
    Ended {
        /// Why.
        cause: String,
    },
}

/// The events of a session, from when this was asked for.
#[derive(Debug)]
pub struct SessionEvents(Option<broadcast::Receiver<SessionEvent>>);

// === impl SessionEvents ===

impl SessionEvents {
    pub(super) fn of(events: &broadcast::WeakSender<SessionEvent>) -> Self {
        Self(events.upgrade().map(|it| it.subscribe()))
    }

    /// The next one; `None` after the end of the session. May be dropped and asked again. More than
    /// 64 that nobody looks at are forgotten, the oldest first.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        let events = self.0.as_mut()?;
        loop {
            match events.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
