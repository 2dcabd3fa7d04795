//! Operations under way: what is asked, whether it may have been done, and how it is asked again.

use std::time::Duration;

use lockkeeper_api::pb::{Grant, LockMode, SessionRequest, session_request::Request};
use tokio::{sync::oneshot, time::Instant};
use uuid::Uuid;

use super::command::Answer;
use crate::{Error, error};

/// An operation without an answer.
pub(super) struct Operation {
    pub(super) request: Request,
    pub(super) purpose: Purpose,
    pub(super) wait_until: Option<Instant>,
    /// How long to repeat it while the store does not answer. None: as long as the session's lease.
    pub(super) patience: Option<Duration>,
    /// None: nobody waits for the answer.
    pub(super) answer: Option<oneshot::Sender<Result<Answer, Error>>>,
    /// When it was sent on this connection.
    pub(super) sent_at: Option<Instant>,
    /// It was sent on a connection that broke, or the coordinator does not know what became of it:
    /// it may have been done.
    pub(super) is_in_doubt: bool,
    pub(super) is_abandoned: bool,
    /// When the coordinator first said that it cannot be done for now.
    pub(super) failing_since: Option<Instant>,
    pub(super) retry_at: Option<Instant>,
}

/// What the answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A handle of the user's.
    Caller,
    /// To renew this holding.
    Renewal(u64),
    /// To give back what this guard had.
    Release(u64),
    /// To give back what came too late; the answer does not matter.
    Cleanup,
}

// === impl Operation ===

impl Operation {
    pub(super) fn new(request: Request, purpose: Purpose) -> Self {
        Self {
            request,
            purpose,
            wait_until: None,
            patience: None,
            answer: None,
            sent_at: None,
            is_in_doubt: false,
            is_abandoned: false,
            failing_since: None,
            retry_at: None,
        }
    }

    /// The frame to send now.
    pub(super) fn frame(&mut self, op_id: u64, now: Instant) -> SessionRequest {
        self.sent_at = Some(now);
        self.retry_at = None;
        let left = self
            .wait_until
            .map(|until| until.saturating_duration_since(now));
        // One too long for the protocol is one without limit.
        let left = left.and_then(|it| it.try_into().ok());
        let mut request = self.request.clone();
        match &mut request {
            Request::Acquire(it) => it.wait_timeout = left,
            Request::AcquireAll(it) => it.wait_timeout = left,
            Request::AcquirePermits(it) => it.wait_timeout = left,
            Request::AwaitLatch(it) => it.wait_timeout = left,
            _ => {}
        }
        SessionRequest {
            op_id,
            request: Some(request),
            ..SessionRequest::default()
        }
    }

    /// The connection broke.
    pub(super) fn on_broken(&mut self) {
        if self.sent_at.take().is_some() {
            self.is_in_doubt = true;
        }
        // What failed there says nothing of the next coordinator.
        self.failing_since = None;
    }

    /// Whether it waits until something is free, and can be cancelled.
    pub(super) fn waits(&self) -> bool {
        matches!(
            self.request,
            Request::Acquire(_)
                | Request::AcquireAll(_)
                | Request::AcquirePermits(_)
                | Request::AwaitLatch(_)
        )
    }

    /// Whether something is held afterwards.
    pub(super) fn takes(&self) -> bool {
        matches!(
            self.request,
            Request::Acquire(_)
                | Request::TryAcquire(_)
                | Request::AcquireAll(_)
                | Request::TryAcquireAll(_)
                | Request::AcquirePermits(_)
                | Request::TryAcquirePermits(_)
        )
    }

    /// What may be held by it, so that a resume confirms it and does not give it back. Permits have
    /// ids that only the answer tells.
    pub(super) fn doubtful_grants(&self) -> Vec<Grant> {
        let grant = |name: &str, mode: i32, owner: &str, is_watched: bool| Grant {
            name: name.to_owned(),
            mode: known_mode(mode),
            owner: owner.to_owned(),
            hold_count: 1,
            watched: is_watched,
            ..Grant::default()
        };
        if !self.is_in_doubt {
            return Vec::new();
        }
        match &self.request {
            Request::Acquire(it) => {
                vec![grant(&it.name, it.mode, &it.owner, it.lease.is_none())]
            }
            Request::TryAcquire(it) => {
                vec![grant(&it.name, it.mode, &it.owner, it.lease.is_none())]
            }
            Request::AcquireAll(it) => it
                .locks
                .iter()
                .map(|lock| grant(&lock.name, lock.mode, &it.owner, it.lease.is_none()))
                .collect(),
            Request::TryAcquireAll(it) => it
                .locks
                .iter()
                .map(|lock| grant(&lock.name, lock.mode, &it.owner, it.lease.is_none()))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// From here on it is another operation to the coordinator.
    pub(super) fn renew_request_id(&mut self) {
        self.is_in_doubt = false;
        if let Some(id) = request_id(&mut self.request) {
            *id = new_request_id();
        }
    }

    /// Whether a failure is one that passes.
    pub(super) fn may_retry(&self, failure: &Error, now: Instant, lease: Duration) -> bool {
        let reason = failure.status().and_then(error::reason);
        let patience = match reason.as_deref() {
            // Says nothing of the store, and the next coordinator is at hand.
            Some("DRAINING") => lease,
            Some("STORE_UNAVAILABLE" | "OUTCOME_UNKNOWN") => self.patience.unwrap_or(lease),
            _ => return false,
        };
        let since = self.failing_since.unwrap_or(now);
        now < since + patience && self.purpose != Purpose::Cleanup
    }
}

/// An exclusive lock is what is asked for if nothing is said.
pub(super) fn known_mode(mode: i32) -> i32 {
    if mode == LockMode::Unspecified as i32 {
        LockMode::Exclusive.into()
    } else {
        mode
    }
}

/// Gives a state-changing request an id, if it has none, so that it can be repeated.
pub(super) fn with_request_id(mut request: Request) -> Request {
    if let Some(id) = request_id(&mut request)
        && id.is_empty()
    {
        *id = new_request_id();
    }
    request
}

fn new_request_id() -> String {
    Uuid::new_v4().to_string()
}

fn request_id(request: &mut Request) -> Option<&mut String> {
    Some(match request {
        Request::Acquire(it) => &mut it.request_id,
        Request::TryAcquire(it) => &mut it.request_id,
        Request::Release(it) => &mut it.request_id,
        Request::AcquireAll(it) => &mut it.request_id,
        Request::TryAcquireAll(it) => &mut it.request_id,
        Request::ReleaseAll(it) => &mut it.request_id,
        Request::AcquirePermits(it) => &mut it.request_id,
        Request::TryAcquirePermits(it) => &mut it.request_id,
        Request::ReleasePermits(it) => &mut it.request_id,
        Request::SetCount(it) => &mut it.request_id,
        Request::CountDown(it) => &mut it.request_id,
        _ => return None,
    })
}
