//! The state and the events of a session, besides the ends of its operations.

use std::time::Duration;

use lockkeeper_api::pb::{Waiting, WaitingForPermits};
use tokio::sync::{
    broadcast::{self, error::RecvError},
    watch,
};

use crate::YieldRequest;

/// Events that a slow reader may be behind; it misses older ones.
const EVENTS_KEPT: usize = 64;

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// Its stream is open.
    Connected,
    /// Its coordinator fails to renew its holdings: they will be lost if that continues.
    AtRisk,
    /// Its stream broke and is being resumed. Holdings stay valid as long as their guards say.
    Resuming,
    /// It has ended and holds nothing.
    Ended,
}

/// An event of a session.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// An acquire waits for a lock: reported at once and on each change.
    Waiting {
        /// The lock; of several locks one with another holder.
        name: String,
        /// The state of the wait.
        waiting: Waiting,
    },
    /// An acquire waits for permits: reported at once and on each change.
    WaitingForPermits {
        /// The semaphore.
        name: String,
        /// The state of the wait.
        waiting: WaitingForPermits,
    },
    /// The stream broke, or its coordinator stops. The session is being resumed; holdings stay
    /// valid as long as their guards say.
    Broken {
        /// Why, for people.
        cause: String,
    },
    /// The session has a stream again. Guards report what was lost meanwhile.
    Resumed,
    /// The coordinator fails to renew the session's holdings: they will be lost if that continues.
    AtRisk {
        /// The time until the first of them is lost.
        valid_for: Duration,
    },
    /// Another caller asks for a lock that is held; [`Guard::yield_requested`] says so too.
    ///
    /// [`Guard::yield_requested`]: crate::Guard::yield_requested
    YieldRequested(YieldRequest),
    /// Renewals succeed again.
    Recovered,
    /// The session has ended and holds nothing.
    Ended {
        /// Why, for people.
        cause: String,
    },
}

/// The events of a session since [`Session::events`](crate::Session::events) was called.
#[derive(Debug)]
pub struct SessionEvents(Option<broadcast::Receiver<SessionEvent>>);

/// Publishes the state and the events of a session.
pub(super) struct Publisher {
    pub(super) state: watch::Sender<SessionState>,
    pub(super) events: broadcast::Sender<SessionEvent>,
}

// === impl SessionEvents ===

impl SessionEvents {
    pub(super) fn of(events: &broadcast::WeakSender<SessionEvent>) -> Self {
        Self(events.upgrade().map(|it| it.subscribe()))
    }

    /// The next event; `None` after the end of the session. Cancel-safe. A reader that is more than
    /// 64 events behind misses the oldest.
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

// === impl Publisher ===

impl Publisher {
    pub(super) fn new() -> Self {
        Self {
            state: watch::Sender::new(SessionState::Connected),
            events: broadcast::Sender::new(EVENTS_KEPT),
        }
    }

    /// Publishes an event, and the state that it leads to.
    pub(super) fn publish(&self, event: SessionEvent) {
        let state = match event {
            SessionEvent::Waiting { .. }
            | SessionEvent::WaitingForPermits { .. }
            | SessionEvent::YieldRequested(_) => None,
            SessionEvent::Broken { .. } => Some(SessionState::Resuming),
            SessionEvent::Resumed | SessionEvent::Recovered => Some(SessionState::Connected),
            SessionEvent::AtRisk { .. } => Some(SessionState::AtRisk),
            SessionEvent::Ended { .. } => Some(SessionState::Ended),
        };
        // Nobody may be subscribed.
        if let Some(state) = state {
            let _ = self.state.send(state);
        }
        let _ = self.events.send(event);
    }
}
