//! The operations of a session that have no answer yet.

use std::{collections::BTreeMap, time::Duration};

use lockkeeper_api::pb::{CancelOperation, Grant, session_request::Request};
use tokio::time::Instant;

use super::{
    command::{Ids, NewOperation},
    operation::{Operation, Purpose},
    timers::Timers,
    transport::{SessionTransport, frame},
};
use crate::{
    Error,
    holding::{Holding, release_of},
};

/// The pause between two attempts, if the coordinator names no other.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The operations without an answer, sent or to be sent.
pub(super) struct Operations {
    by_id: BTreeMap<u64, Operation>,
    timers: Timers,
    ids: Ids,
}

// === impl Operations ===

impl Operations {
    pub(super) fn new(ids: Ids) -> Self {
        Self {
            by_id: BTreeMap::new(),
            timers: Timers::default(),
            ids,
        }
    }

    /// Starts an operation of the session itself: sends it now, or when there is a stream.
    pub(super) fn start(
        &mut self,
        now: Instant,
        transport: &SessionTransport,
        request: Request,
        purpose: Purpose,
    ) {
        let op_id = self.ids.next();
        self.by_id.insert(op_id, Operation::new(request, purpose));
        self.send(now, transport, op_id);
    }

    /// Starts an operation of a caller.
    pub(super) fn start_for_caller(
        &mut self,
        now: Instant,
        transport: &SessionTransport,
        new: NewOperation,
    ) {
        let op_id = new.op_id;
        self.by_id.insert(op_id, Operation::of_caller(new));
        self.send(now, transport, op_id);
    }

    fn send(&mut self, now: Instant, transport: &SessionTransport, op_id: u64) {
        let Some(operation) = self.by_id.get_mut(&op_id) else {
            return;
        };
        if !transport.is_up() {
            return;
        }
        transport.send(operation.frame(op_id, now));
        if operation.is_abandoned && operation.waits() {
            transport.send(frame(op_id, Request::Cancel(CancelOperation {})));
        }
    }

    /// The caller no longer waits. An operation that was never sent is forgotten, a wait is
    /// cancelled, and what is granted nevertheless is released.
    pub(super) fn abandon(&mut self, transport: &SessionTransport, op_id: u64) {
        let Some(operation) = self.by_id.get_mut(&op_id) else {
            return;
        };
        operation.reply = None;
        operation.is_abandoned = true;
        let is_sent = operation.sent_at.is_some();
        if !is_sent && !operation.is_uncertain {
            self.by_id.remove(&op_id);
        } else if is_sent && operation.waits() {
            transport.send(frame(op_id, Request::Cancel(CancelOperation {})));
        }
    }

    /// Whether a caller started the operation.
    pub(super) fn is_of_caller(&self, op_id: u64) -> bool {
        let operation = self.by_id.get(&op_id);
        operation.is_some_and(|it| it.purpose == Purpose::Caller)
    }

    /// Takes the operation that is answered.
    pub(super) fn take(&mut self, op_id: u64) -> Option<Operation> {
        self.by_id.remove(&op_id)
    }

    /// What an operation acquires whose caller still waits, for people.
    pub(super) fn awaited_name(&self, op_id: u64) -> Option<String> {
        let operation = self.by_id.get(&op_id)?;
        operation.reply.as_ref()?;
        Some(operation.name())
    }

    /// An operation has failed. Returns it, unless it is tried again.
    pub(super) fn on_failed(
        &mut self,
        now: Instant,
        transport: &SessionTransport,
        op_id: u64,
        failure: &Error,
        lease: Duration,
    ) -> Option<Operation> {
        let operation = self.by_id.get_mut(&op_id)?;
        if matches!(operation.purpose, Purpose::Renewal(_)) {
            return self.take(op_id);
        }
        // What the first attempt acquired has been released since; this is a new one.
        if operation.acquires() && operation.is_uncertain && is_not_owner(failure) {
            operation.renew_request_id();
            self.send(now, transport, op_id);
            return None;
        }
        if operation.may_retry(failure, now, lease) {
            let pause = failure.retry_delay().unwrap_or(RETRY_INTERVAL);
            let at = now + pause.mul_f64(rand::random_range(0.5..1.0));
            operation.retry(now, at);
            self.timers.set(at, op_id);
            return None;
        }
        self.take(op_id)
    }

    /// What was sent may have been executed. Renewals start anew.
    pub(super) fn on_stream_ended(&mut self) {
        self.by_id
            .retain(|_, it| !matches!(it.purpose, Purpose::Renewal(_) | Purpose::Cleanup));
        for operation in self.by_id.values_mut() {
            operation.on_stream_ended();
        }
    }

    /// The locks that operations may have acquired when the stream broke.
    pub(super) fn possible_grants(&self) -> impl Iterator<Item = Grant> {
        self.by_id.values().flat_map(Operation::possible_grants)
    }

    /// Sends everything on a resumed stream. An operation that may have been executed is repeated
    /// with the same request id, which gets the same grant. Two kinds start anew: permits, which
    /// cannot be named in a resume, and several locks of which only some are held; those are
    /// released.
    pub(super) fn on_resumed(
        &mut self,
        now: Instant,
        transport: &SessionTransport,
        still_held: &[Holding],
    ) {
        let is_held = |grant: &Grant| {
            let mut locks = still_held.iter().filter_map(Holding::lock);
            locks.any(|it| it.name == grant.name && it.owner == grant.owner)
        };
        let mut partial = Vec::new();
        for operation in self.by_id.values_mut() {
            let possible = operation.possible_grants();
            let held: Vec<_> = possible.iter().filter(|it| is_held(it)).cloned().collect();
            if possible.len() > 1 && !held.is_empty() && held.len() < possible.len() {
                partial.extend(held);
                operation.renew_request_id();
            }
            if operation.acquires() && possible.is_empty() {
                operation.renew_request_id();
            }
        }
        for grant in partial {
            let release = release_of(&[grant.into()]);
            self.start(now, transport, release, Purpose::Cleanup);
        }
        let unsent = self.by_id.iter().filter(|(_, it)| it.sent_at.is_none());
        let unsent: Vec<u64> = unsent.map(|(op_id, _)| *op_id).collect();
        for op_id in unsent {
            self.send(now, transport, op_id);
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Sends again what has waited for long enough.
    pub(super) fn retry_due(&mut self, now: Instant, transport: &SessionTransport) {
        while let Some(op_id) = self.timers.pop_due(now) {
            let operation = self.by_id.get(&op_id);
            if operation.is_some_and(|it| it.retry_at.is_some_and(|at| at <= now)) {
                self.send(now, transport, op_id);
            }
        }
    }

    /// The session has ended: no operation will be answered.
    pub(super) fn end(self, error: &Error) {
        for operation in self.by_id.into_values() {
            operation.finish(Err(error.clone()));
        }
    }
}

/// Whether the coordinator says that the session does not hold the lock or the permits.
pub(super) fn is_not_owner(failure: &Error) -> bool {
    failure.reason().is_some_and(|it| it == "NOT_OWNER")
}
