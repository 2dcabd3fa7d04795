//! The operations of a session that have no answer yet.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem,
    time::Duration,
};

use lockkeeper_api::pb::{CancelOperation, Grant, session_request::Request};
use rand::{RngExt as _, rngs::StdRng};
use tokio::time::Instant;

use super::{
    event::{Effect, Ids},
    operation::{Operation, Purpose, frame},
    timers::Timers,
};
use crate::{
    Error,
    holding::{GrantKey, release_of},
};

/// The pause between two attempts, if the coordinator names no other.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The largest frame. By default a coordinator ends the stream after a larger one.
pub(crate) const FRAME_BYTES_MAX: usize = 1024 * 1024;

/// The operations without an answer, sent or to be sent.
#[derive(Debug)]
pub(super) struct Operations {
    by_id: BTreeMap<u64, Operation>,
    /// Those to be sent as soon as there is a stream.
    unsent: BTreeSet<u64>,
    /// Retries on a stream, and ends of waits without one.
    timers: Timers,
    ids: Ids,
    random: StdRng,
    /// The largest frame that is sent.
    pub(super) bytes_max: usize,
}

// === impl Operations ===

impl Operations {
    pub(super) fn new(ids: Ids, random: StdRng) -> Self {
        Self {
            by_id: BTreeMap::new(),
            unsent: BTreeSet::new(),
            timers: Timers::default(),
            ids,
            random,
            bytes_max: FRAME_BYTES_MAX,
        }
    }

    pub(super) fn insert(&mut self, mut operation: Operation) {
        operation.identify(&mut self.random);
        if let Some(at) = operation.wait_until {
            self.timers.set(at, operation.op_id);
        }
        self.unsent.insert(operation.op_id);
        self.by_id.insert(operation.op_id, operation);
    }

    /// Starts an operation of the session itself.
    pub(super) fn start(&mut self, request: Request, purpose: Purpose) {
        self.insert(Operation::new(self.ids.next(), request, purpose));
    }

    /// Sends what is to be sent.
    pub(super) fn flush(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        for op_id in mem::take(&mut self.unsent) {
            if let Some(operation) = self.by_id.get_mut(&op_id) {
                effects.push(Effect::Send(operation.frame(now)));
                if !operation.has_caller && operation.waits() {
                    effects.push(cancel(op_id));
                }
            }
        }
    }

    /// The caller no longer waits. An operation that was never sent is forgotten, a wait is
    /// cancelled, and what is granted nevertheless is released.
    pub(super) fn abandon(&mut self, op_id: u64, can_send: bool, effects: &mut Vec<Effect>) {
        let Some(operation) = self.by_id.get_mut(&op_id) else {
            return;
        };
        operation.has_caller = false;
        let is_sent = operation.sent_at.is_some();
        if !is_sent && !operation.is_uncertain {
            self.take(op_id);
        } else if is_sent && operation.waits() && can_send {
            effects.push(cancel(op_id));
        }
    }

    fn take(&mut self, op_id: u64) -> Option<Operation> {
        self.unsent.remove(&op_id);
        self.timers.stop(op_id);
        self.by_id.remove(&op_id)
    }

    /// Takes the operation that is answered, and when it was sent. An answer to what was not sent
    /// since is ignored, because its age is not known.
    pub(super) fn take_sent(&mut self, op_id: u64) -> Option<(Operation, Instant)> {
        let sent_at = self.by_id.get(&op_id)?.sent_at?;
        Some((self.take(op_id)?, sent_at))
    }

    /// What an operation acquires whose caller still waits, for people.
    pub(super) fn awaited_name(&self, op_id: u64) -> Option<String> {
        let operation = self.by_id.get(&op_id)?;
        operation.has_caller.then(|| operation.name())
    }

    /// An operation has failed. Returns it, unless it is tried again.
    pub(super) fn on_failed(
        &mut self,
        now: Instant,
        mut operation: Operation,
        failure: &Error,
        lease: Duration,
    ) -> Option<Operation> {
        let is_wanted = operation.acquires() && operation.has_caller;
        if is_wanted && operation.is_uncertain && is_not_owner(failure) {
            // What the first attempt acquired has been released since; this is a new one.
            operation.renew_request_id(&mut self.random);
            self.unsent.insert(operation.op_id);
        } else if operation.may_retry(failure, now, lease) {
            let pause = failure.retry_delay().unwrap_or(RETRY_PAUSE);
            let at = now + pause.mul_f64(self.random.random_range(0.5..1.0));
            operation.retry(now, at);
            self.timers.set(at, operation.op_id);
        } else {
            return Some(operation);
        }
        self.by_id.insert(operation.op_id, operation);
        None
    }

    /// Whether its wait is over although it is to be sent again.
    pub(super) fn is_late(&self, op_id: u64, now: Instant) -> bool {
        self.by_id.get(&op_id).is_some_and(|it| {
            it.has_caller && it.retry_at.is_some() && it.wait_until.is_some_and(|at| at <= now)
        })
    }

    /// What was sent may have been executed. Renewals start anew.
    pub(super) fn on_stream_ended(&mut self) {
        self.by_id
            .retain(|_, it| !matches!(it.purpose, Purpose::Renewal | Purpose::Cleanup));
        for (op_id, operation) in &mut self.by_id {
            operation.on_stream_ended();
            match operation.wait_until {
                Some(at) => self.timers.set(at, *op_id),
                None => self.timers.stop(*op_id),
            }
        }
        self.unsent = self.by_id.keys().copied().collect();
    }

    /// The stream ended because of a larger frame, which would end the next one too. Takes the
    /// operations of callers that are larger than that, each with its error.
    pub(super) fn limit(&mut self, bytes_max: usize) -> Vec<(Operation, Error)> {
        self.bytes_max = bytes_max.min(self.bytes_max);
        let callers = self.by_id.values();
        let callers = callers.filter(|it| it.purpose == Purpose::Caller);
        let too_large = callers.filter_map(|it| Some((it.op_id, it.ensure_fits(bytes_max).err()?)));
        let too_large: Vec<_> = too_large.collect();
        let taken = too_large.into_iter();
        taken
            .filter_map(|(op_id, failure)| Some((self.take(op_id)?, failure)))
            .collect()
    }

    /// The locks that operations may have acquired when the stream broke.
    pub(super) fn possible_grants(&self) -> impl Iterator<Item = Grant> {
        self.by_id.values().flat_map(Operation::possible_grants)
    }

    /// Prepares what is sent on a resumed stream. An operation that may have been executed is
    /// retried with the same request id, which gets the same grant. Two kinds start anew: permits,
    /// which cannot be named in a resume, and several locks of which only some are held; those are
    /// released. Locks that a guard holds say nothing about it.
    pub(super) fn on_resumed(
        &mut self,
        still_held: &HashSet<GrantKey>,
        is_of_a_guard: impl Fn(&Grant) -> bool,
    ) {
        let is_forgotten = |it: &&Operation| it.acquires_permits() && !it.has_caller;
        let forgotten = self.by_id.values().filter(is_forgotten);
        for op_id in forgotten.map(|it| it.op_id).collect::<Vec<_>>() {
            self.take(op_id);
        }
        let mut partial = Vec::new();
        for operation in self.by_id.values_mut().filter(|it| it.is_uncertain) {
            let mut possible = operation.possible_grants();
            possible.retain(|it| !is_of_a_guard(it));
            let is_held = |it: &&Grant| still_held.contains(&(*it).into());
            let held: Vec<_> = possible.iter().filter(is_held).cloned().collect();
            if operation.acquires_permits() || (1..possible.len()).contains(&held.len()) {
                operation.renew_request_id(&mut self.random);
                partial.extend(held);
            }
        }
        for grant in partial {
            self.start(release_of(&[grant.into()]), Purpose::Cleanup);
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// What is due: to be sent again, or without a stream the waits that end now.
    pub(super) fn pop_due(&mut self, now: Instant, is_up: bool) -> Vec<u64> {
        let mut ended = Vec::new();
        while let Some(op_id) = self.timers.pop_due(now) {
            let Some(operation) = self.by_id.get(&op_id) else {
                continue;
            };
            if operation.retry_at.is_some_and(|at| at <= now) {
                self.unsent.insert(op_id);
            }
            let is_over = operation.wait_until.is_some_and(|at| at <= now);
            if !is_up && is_over && operation.has_caller {
                ended.push(op_id);
            }
        }
        ended
    }

    /// Takes all, because none will be answered.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Operation> {
        mem::take(&mut self.by_id).into_values()
    }

    /// Those whose caller still waits.
    pub(super) fn of_callers(&self) -> impl Iterator<Item = &Operation> {
        self.by_id.values().filter(|it| it.has_caller)
    }
}

fn cancel(op_id: u64) -> Effect {
    Effect::Send(frame(op_id, Request::Cancel(CancelOperation {})))
}

/// Whether the coordinator says that the session does not hold the lock or the permits.
pub(super) fn is_not_owner(failure: &Error) -> bool {
    failure.reason().is_some_and(|it| it == "NOT_OWNER")
}
