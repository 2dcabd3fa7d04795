//! An operation: its request, whether it may have been executed, and whether it is retried.

use std::time::Duration;

use lockkeeper_api::pb::{Grant, LockSpec, SessionRequest, session_request::Request};
use rand::{RngExt as _, rngs::StdRng};
use tokio::time::Instant;
use uuid::Builder;

use super::event::{Completion, Effect, NewOperation};
use crate::{Error, error, holding::effective_mode};

/// What a frame has besides the request of a caller, at most: ids, and the rest of a wait.
const FRAME_BYTES: usize = 128;

/// An operation without an answer.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) op_id: u64,
    pub(super) request: Request,
    pub(super) purpose: Purpose,
    /// What it renews, and that grant's fencing token when it was asked for.
    pub(super) renews: Option<(u64, u64)>,
    pub(super) wait_until: Option<Instant>,
    /// How long to retry while the store does not answer. `None`: for the session's lease.
    pub(super) patience: Option<Duration>,
    /// Whether a caller waits for its end. A caller's operation without one is abandoned.
    pub(super) has_caller: bool,
    /// When it was sent on this stream.
    pub(super) sent_at: Option<Instant>,
    /// Whether it may have been executed: its stream broke, or the coordinator does not know.
    pub(super) is_uncertain: bool,
    /// When the coordinator first answered that it cannot be executed for now.
    pub(super) failing_since: Option<Instant>,
    pub(super) retry_at: Option<Instant>,
}

/// What the answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A caller.
    Caller,
    /// The renewal of a holding.
    Renewal,
    /// The release of what this guard held.
    Release(u64),
    /// The release of what was granted after its caller was gone.
    LateRelease,
    /// The release of a part of what was asked for. It is not repeated: the resume that follows a
    /// broken stream does not name that part, which releases it.
    Cleanup,
}

// === impl Operation ===

impl Operation {
    pub(super) fn new(op_id: u64, request: Request, purpose: Purpose) -> Self {
        Self {
            op_id,
            request,
            purpose,
            renews: None,
            wait_until: None,
            patience: None,
            has_caller: false,
            sent_at: None,
            is_uncertain: false,
            failing_since: None,
            retry_at: None,
        }
    }

    pub(super) fn of_caller(new: NewOperation, renews: Option<(u64, u64)>) -> Self {
        Self {
            renews,
            wait_until: new.wait_until,
            patience: new.patience,
            has_caller: true,
            ..Self::new(new.op_id, new.request, Purpose::Caller)
        }
    }

    /// What waits for no holder does not wait for long while nothing answers, either.
    pub(super) fn limit(&mut self, now: Instant, least: Duration) {
        if self.acquires() && !self.waits() || self.asks() {
            let limit = least.max(self.patience.unwrap_or_default());
            self.wait_until = self.wait_until.or_else(|| now.checked_add(limit));
        }
    }

    /// Answers the caller, if there is one.
    pub(super) fn finish(self, result: Result<Completion, Error>, effects: &mut Vec<Effect>) {
        if self.has_caller {
            let op_id = self.op_id;
            effects.push(Effect::Done { op_id, result });
        }
    }

    /// The names of the locks, the semaphore or the latch, for people.
    pub(super) fn name(&self) -> String {
        match &self.request {
            Request::AcquirePermits(it) => it.name.clone(),
            Request::TryAcquirePermits(it) => it.name.clone(),
            Request::AwaitLatch(it) => it.name.clone(),
            _ => {
                let names = self.locks().into_iter().map(|lock| lock.name);
                names.collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The locks that it acquires, as grants without what only the coordinator knows.
    fn locks(&self) -> Vec<Grant> {
        let grant = |name: &str, mode: i32, owner: &str, is_watched: bool| Grant {
            name: name.to_owned(),
            mode: effective_mode(mode),
            owner: owner.to_owned(),
            hold_count: 1,
            watched: is_watched,
            ..Grant::default()
        };
        let all = |locks: &[LockSpec], owner: &str, is_watched: bool| {
            let grants = locks.iter();
            grants
                .map(|it| grant(&it.name, it.mode, owner, is_watched))
                .collect()
        };
        match &self.request {
            Request::Acquire(it) => vec![grant(&it.name, it.mode, &it.owner, it.lease.is_none())],
            Request::TryAcquire(it) => {
                vec![grant(&it.name, it.mode, &it.owner, it.lease.is_none())]
            }
            Request::AcquireAll(it) => all(&it.locks, &it.owner, it.lease.is_none()),
            Request::TryAcquireAll(it) => all(&it.locks, &it.owner, it.lease.is_none()),
            _ => Vec::new(),
        }
    }

    /// Fails if its frame is larger than this.
    pub(super) fn ensure_fits(&self, bytes_max: usize) -> Result<(), Error> {
        let bytes = self.request.encoded_len() + FRAME_BYTES;
        if bytes <= bytes_max {
            return Ok(());
        }
        let why = format!("the request has {bytes} bytes, the limit is {bytes_max}");
        Err(Error::Misconfigured(why))
    }

    /// The frame to send now.
    pub(super) fn frame(&mut self, now: Instant) -> SessionRequest {
        self.sent_at = Some(now);
        self.retry_at = None;
        let left = self
            .wait_until
            .map(|until| until.saturating_duration_since(now));
        // A wait that is too long for the protocol has no limit.
        let left = left.and_then(|it| it.try_into().ok());
        let mut request = self.request.clone();
        match &mut request {
            Request::Acquire(it) => it.wait_timeout = left,
            Request::AcquireAll(it) => it.wait_timeout = left,
            Request::AcquirePermits(it) => it.wait_timeout = left,
            Request::AwaitLatch(it) => it.wait_timeout = left,
            _ => {}
        }
        frame(self.op_id, request)
    }

    pub(super) fn on_stream_ended(&mut self) {
        if self.sent_at.take().is_some() {
            self.is_uncertain = true;
        }
        // The next coordinator may not fail.
        self.failing_since = None;
        self.retry_at = None;
    }

    /// Whether it waits, and so can be cancelled.
    pub(super) fn waits(&self) -> bool {
        matches!(
            self.request,
            Request::Acquire(_)
                | Request::AcquireAll(_)
                | Request::AcquirePermits(_)
                | Request::AwaitLatch(_)
        )
    }

    pub(super) fn acquires_permits(&self) -> bool {
        matches!(
            self.request,
            Request::AcquirePermits(_) | Request::TryAcquirePermits(_)
        )
    }

    /// Whether it acquires something.
    pub(super) fn acquires(&self) -> bool {
        self.acquires_permits() || !self.locks().is_empty()
    }

    /// Whether it is a question, which changes nothing.
    fn asks(&self) -> bool {
        matches!(
            self.request,
            Request::Describe(_)
                | Request::DescribeSemaphore(_)
                | Request::DescribeLatch(_)
                | Request::CheckToken(_)
                | Request::Leader(_)
                | Request::Explain(_)
        )
    }

    /// The locks that it may hold already, so that a resume confirms them and does not release
    /// them. Permits have ids that only the answer contains.
    pub(super) fn possible_grants(&self) -> Vec<Grant> {
        if self.is_uncertain {
            self.locks()
        } else {
            Vec::new()
        }
    }

    /// Gives a request that changes state an id, so that it can be retried, if it has none.
    pub(super) fn identify(&mut self, random: &mut StdRng) {
        if let Some(id) = request_id(&mut self.request)
            && id.is_empty()
        {
            let random = Builder::from_random_bytes(random.random());
            *id = random.into_uuid().to_string();
        }
    }

    /// Makes it a new operation to the coordinator.
    pub(super) fn renew_request_id(&mut self, random: &mut StdRng) {
        self.is_uncertain = false;
        self.sent_at = None;
        if let Some(id) = request_id(&mut self.request) {
            id.clear();
        }
        self.identify(random);
    }

    /// Whether a failure may be temporary, so that it is worth another attempt.
    pub(super) fn may_retry(&self, failure: &Error, now: Instant, lease: Duration) -> bool {
        let reason = failure.status().and_then(error::reason);
        let patience = match reason.as_deref() {
            // The store does not matter, and the next coordinator is at hand.
            Some("DRAINING") => lease,
            Some("STORE_UNAVAILABLE" | "OUTCOME_UNKNOWN") => self.patience.unwrap_or(lease),
            _ => return false,
        };
        let since = self.failing_since.unwrap_or(now);
        now.duration_since(since) < patience && self.purpose != Purpose::Cleanup
    }

    pub(super) fn retry(&mut self, now: Instant, at: Instant) {
        self.failing_since.get_or_insert(now);
        self.is_uncertain = true;
        self.sent_at = None;
        self.retry_at = Some(at);
    }
}

pub(super) fn frame(op_id: u64, request: Request) -> SessionRequest {
    SessionRequest {
        op_id,
        request: Some(request),
        ..SessionRequest::default()
    }
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
