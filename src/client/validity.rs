//! Until when a grant is certainly held, and why it was lost.

use lockkeeper_api::pb::LostReason;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::{Error, clock::Clock};

/// The validity of one grant, which the session's task writes and guards read: instants of the
/// session's [`Clock`].
#[derive(Debug)]
pub(crate) struct Validity {
    name: String,
    state: Mutex<State>,
    asked: watch::Sender<Option<YieldRequest>>,
}

#[derive(Debug)]
struct State {
    valid_until: Instant,
    loss: Option<Loss>,
}

/// A request of another caller to release a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YieldRequest {
    /// The lock.
    pub name: String,
    /// Who asks, for people; may be empty.
    pub by: String,
    /// Why, for people.
    pub reason: String,
    /// Until when the request stands.
    pub deadline: Instant,
    /// Whether the lock is taken away then.
    pub preempts: bool,
}

/// Why a grant was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) reason: LostReason,
    /// For people; may be empty.
    pub(crate) detail: String,
    /// From when on others may hold it: later than the loss if that has a grace period.
    pub(crate) open_from: Instant,
}

// === impl Validity ===

impl Validity {
    pub(crate) fn new(name: &str, valid_until: Instant) -> Self {
        Self {
            name: name.to_owned(),
            state: Mutex::new(State {
                valid_until,
                loss: None,
            }),
            asked: watch::Sender::new(None),
        }
    }

    /// The holder is asked to release the grant.
    pub(crate) fn ask(&self, request: YieldRequest) {
        self.asked.send_replace(Some(request));
    }

    /// Resolves while a request stands. Cancel safe.
    pub(crate) async fn asked(&self, clock: &Clock) -> YieldRequest {
        let mut asked = self.asked.subscribe();
        let is_standing =
            |it: &Option<YieldRequest>| it.as_ref().is_some_and(|it| it.deadline > clock.now());
        // The sender is our own.
        let standing = asked.wait_for(is_standing).await;
        match standing.ok().and_then(|it| it.clone()) {
            Some(request) => request.in_tokio(clock),
            None => std::future::pending().await,
        }
    }

    pub(crate) fn valid_until(&self) -> Instant {
        self.state.lock().valid_until
    }

    pub(crate) fn set_valid_until(&self, until: Instant) {
        self.state.lock().valid_until = until;
    }

    /// The error that says why the grant was lost, if it was.
    pub(crate) fn loss(&self) -> Option<Error> {
        let loss = self.state.lock().loss.clone()?;
        Some(loss.of(&self.name))
    }

    /// Only the first loss counts.
    pub(crate) fn lose(&self, loss: Loss) {
        let mut state = self.state.lock();
        if state.loss.is_none() {
            state.valid_until = state.valid_until.min(loss.open_from);
            state.loss = Some(loss);
        }
    }
}

// === impl YieldRequest ===

impl YieldRequest {
    /// For the user, who has tokio's clock.
    pub(crate) fn in_tokio(mut self, clock: &Clock) -> Self {
        self.deadline = clock.to_tokio(self.deadline);
        self
    }
}

// === impl Loss ===

impl Loss {
    /// A loss that leaves no time: others may hold it at once.
    pub(crate) fn new(reason: LostReason, now: Instant) -> Self {
        Self {
            reason,
            detail: String::new(),
            open_from: now,
        }
    }

    pub(crate) fn of(self, name: &str) -> Error {
        Error::Lost {
            name: name.to_owned(),
            reason: self.reason,
            detail: self.detail,
        }
    }
}

/// The error of a loss that was not reported.
pub(crate) fn unheard(name: &str) -> Error {
    Error::Lost {
        name: name.to_owned(),
        reason: LostReason::Expired,
        detail: String::new(),
    }
}
