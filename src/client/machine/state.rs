//! The machine: it passes each event to the part that it concerns, and what follows from it to the
//! others.

use std::{collections::HashSet, mem, sync::Arc, time::Duration};

use lockkeeper_api::pb::{
    CloseSession, LostReason, OpenSession, SessionOpened, session_request::Request,
};
use rand::{SeedableRng as _, rngs::StdRng};
use tokio::time::Instant;

use super::{
    event::{Effect, Event, Ids, NewOperation, closed},
    holding_table::HoldingTable,
    operation::{Operation, frame},
    operations::Operations,
    renewal_times::RenewalTimes,
    stream::{Due, OPEN_TIMEOUT, State, Stream},
};
use crate::{
    Address, Error,
    holding::{GrantKey, Holding},
    session::SessionEvent,
    validity::Loss,
};

/// How long the end of a session may take before its holdings are left to their leases.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A session. See the module.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(super) stream: Stream,
    pub(super) operations: Operations,
    pub(super) table: HoldingTable,
    /// Until when the end of a session that is being closed is awaited.
    close_deadline: Option<Instant>,
    /// Whether that time has passed.
    is_late: bool,
    pub(super) effects: Vec<Effect>,
}

// === impl Machine ===

impl Machine {
    /// A session that the first tick opens at one of these addresses, of which there is at least
    /// one. Pauses and request ids are `random`.
    pub(crate) fn new(
        now: Instant,
        addresses: Arc<[Address]>,
        open: OpenSession,
        ids: Ids,
        mut random: StdRng,
    ) -> Self {
        Self {
            stream: Stream::new(now, addresses, open, StdRng::from_rng(&mut random)),
            operations: Operations::new(ids.clone(), random),
            table: HoldingTable::new(ids),
            close_deadline: None,
            is_late: false,
            effects: Vec::new(),
        }
    }

    /// Takes an event. The effects have to be carried out in their order.
    pub(crate) fn step(&mut self, event: Event, now: Instant) -> Vec<Effect> {
        match event {
            Event::Received(frame) => self.on_received(now, frame),
            Event::StreamEnded(failure) => self.on_stream_ended(now, failure),
            Event::Start(new) => self.start(now, new),
            Event::Abandon(op_id) => self.abandon(op_id),
            Event::Release { guard, op_id } => {
                self.table.release(guard, op_id, &mut self.effects);
            }
            Event::Close => self.close(now),
            Event::Tick => {}
        }
        self.meet_deadlines(now);
        mem::take(&mut self.effects)
    }

    /// Ends the session because nothing drives it any more. Effects besides replies and losses are
    /// of no use.
    pub(crate) fn abort(&mut self, now: Instant) -> Vec<Effect> {
        self.end(
            now,
            "its task is gone: its runtime was shut down, or it failed",
        );
        mem::take(&mut self.effects)
    }

    /// When the next [`Event::Tick`] is due.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        let all = [
            self.table.wake_at(),
            self.operations.wake_at(),
            self.close_deadline,
            self.stream.wake_at(),
        ];
        let first = all.into_iter().flatten().min();
        first.filter(|_| self.stream.ended().is_none())
    }

    /// Whether anything is held, or may be.
    pub(crate) fn holds(&self) -> bool {
        !self.table.is_empty()
    }

    /// The lease of the session; one that is assumed before it is open.
    pub(crate) fn lease(&self) -> Duration {
        self.stream.lease
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.close_deadline.is_some()
    }

    /// What `close` returns once the session has ended.
    pub(crate) fn ended(&self) -> Option<Result<(), Error>> {
        let why = self.stream.ended()?;
        let late = self.is_late.then(|| Error::SessionEnded(why.to_owned()));
        Some(late.map_or(Ok(()), Err))
    }

    fn meet_deadlines(&mut self, now: Instant) {
        self.take_started();
        if self.stream.ended().is_some() {
            return;
        }
        if self.close_deadline.is_some_and(|at| at <= now) {
            self.is_late = true;
            self.end(now, "it was closed, and no coordinator has answered");
        }
        match self.stream.due(now) {
            Due::Nothing => {}
            Due::Connect => self.connect(now),
            Due::GiveUp => {
                self.effects.push(Effect::Disconnect);
                let failure = self.stream.unreachable("the coordinator does not answer");
                self.on_attempt_failed(now, failure);
            }
            Due::Ping => {
                let ping = self.stream.ping(now);
                self.effects.push(ping);
            }
            Due::Leave => {
                self.effects.push(Effect::Disconnect);
                self.on_broken(now, None);
            }
            Due::End => self.end(
                now,
                "no coordinator could be reached for as long as its lease",
            ),
        }
        let can_send = self.stream.can_send();
        self.table.meet_deadlines(now, can_send, &mut self.effects);
        for op_id in self.operations.pop_due(now, self.stream.is_up()) {
            let result = Err(self.stream.last_fault());
            self.effects.push(Effect::Done { op_id, result });
            self.abandon(op_id);
        }
        self.take_started();
        if can_send {
            self.operations.flush(now, &mut self.effects);
        }
    }

    /// Takes the renewals and releases that the table has started.
    fn take_started(&mut self) {
        for operation in mem::take(&mut self.table.started) {
            self.insert(operation);
        }
    }

    /// Adds an operation, which is not answered after the end.
    fn insert(&mut self, operation: Operation) {
        match self.stream.ended() {
            None => self.operations.insert(operation),
            Some(why) => {
                let ended = Error::SessionEnded(why.to_owned());
                operation.finish(Err(ended), &mut self.effects);
            }
        }
    }

    // --- callers

    fn start(&mut self, now: Instant, new: NewOperation) {
        let renews = self.table.renewed_by(&new.request);
        let mut operation = Operation::of_caller(new, renews);
        if !self.stream.is_new() {
            operation.limit(now, OPEN_TIMEOUT);
        }
        match operation.ensure_fits(self.operations.bytes_max) {
            Ok(()) => self.insert(operation),
            Err(failure) => operation.finish(Err(failure), &mut self.effects),
        }
    }

    pub(super) fn abandon(&mut self, op_id: u64) {
        if let Some(guard) = self.table.unconfirmed_guard(op_id) {
            self.table.release(guard, None, &mut self.effects);
        }
        let can_send = self.stream.can_send();
        self.operations.abandon(op_id, can_send, &mut self.effects);
    }

    fn close(&mut self, now: Instant) {
        self.close_deadline.get_or_insert(now + CLOSE_TIMEOUT);
        self.table.fail_unconfirmed(&closed(), &mut self.effects);
        let waits = self.operations.of_callers().filter(|it| it.waits());
        for op_id in waits.map(|it| it.op_id).collect::<Vec<_>>() {
            let result = Err(closed());
            self.effects.push(Effect::Done { op_id, result });
            self.operations.abandon(op_id, false, &mut self.effects);
        }
        self.send_close();
    }

    fn send_close(&mut self) {
        if self.stream.can_send()
            && let State::Up { is_closing, .. } = &mut self.stream.state
        {
            *is_closing = true;
            let close = frame(0, Request::Close(CloseSession {}));
            self.effects.push(Effect::Send(close));
        }
    }

    // --- the stream

    fn connect(&mut self, now: Instant) {
        let (mut grants, permits) = self.table.grants();
        let mut named = HashSet::<GrantKey>::new();
        let possible = self.operations.possible_grants();
        grants.extend(possible.filter(|it| !self.table.contains(it) && named.insert(it.into())));
        let connect = self.stream.connect(now, grants, permits);
        self.effects.push(connect);
    }

    fn on_stream_ended(&mut self, now: Instant, failure: Option<Error>) {
        match self.stream.state {
            State::Up { is_closing, .. } if is_closing && failure.is_none() => {
                self.end(now, "it was closed");
            }
            State::Up { .. } => self.on_broken(now, failure.as_ref()),
            State::Opening { .. } => {
                let ended = || self.stream.unreachable("the coordinator ended the stream");
                let failure = failure.unwrap_or_else(ended);
                self.on_attempt_failed(now, failure);
            }
            State::Down { .. } | State::Ended { .. } => {}
        }
    }

    fn on_broken(&mut self, now: Instant, failure: Option<&Error>) {
        let cause = self.stream.on_broken(now, failure);
        self.operations.on_stream_ended();
        if let Some(bytes_max) = failure.and_then(Error::message_bytes_max) {
            for (operation, failure) in self.operations.limit(bytes_max) {
                operation.finish(Err(failure), &mut self.effects);
            }
        }
        self.table.on_stream_ended();
        self.publish(SessionEvent::Broken { cause });
    }

    pub(super) fn on_attempt_failed(&mut self, now: Instant, failure: Error) {
        let is_new = self.stream.is_new();
        if let Err(failure) = self.stream.on_attempt_failed(now, failure) {
            self.end(now, &failure.to_string());
            if is_new {
                self.effects.push(Effect::Opened(Err(failure)));
            }
        }
    }

    /// After a resume, the coordinator has renewed each grant that was named; losses follow.
    pub(super) fn on_opened(&mut self, now: Instant, opened: SessionOpened) {
        let State::Opening { sent_at, .. } = self.stream.state else {
            return;
        };
        self.table.times = RenewalTimes::of(&opened);
        if self.stream.on_opened(now, &opened) {
            self.effects.push(Effect::Opened(Ok(opened)));
            return;
        }
        self.publish(SessionEvent::Resumed);
        let still_held = Holding::resumed(&opened);
        let keys = still_held.iter().flat_map(Holding::keys).collect();
        for holding in still_held {
            self.table.renewed(now, sent_at, holding, &mut self.effects);
        }
        if self.is_closing() {
            self.send_close();
            return;
        }
        self.operations
            .on_resumed(&keys, |grant| self.table.contains(grant));
        self.table.on_resumed(now);
    }

    pub(super) fn publish(&mut self, event: SessionEvent) {
        self.effects.push(Effect::Publish(event));
    }

    // --- the end

    /// Nothing is held any more, and no operation will be answered.
    fn end(&mut self, now: Instant, why: &str) {
        if self.stream.ended().is_some() {
            return;
        }
        let is_new = self.stream.is_new();
        self.stream.state = State::Ended {
            why: why.to_owned(),
        };
        let (why, error) = (why.to_owned(), Error::SessionEnded(why.to_owned()));
        self.effects.push(Effect::Disconnect);
        self.table.fail_unconfirmed(&error, &mut self.effects);
        let loss = Loss {
            detail: error.to_string(),
            ..Loss::new(LostReason::Unspecified, now)
        };
        self.table.lose_all(&loss, &mut self.effects);
        if !is_new {
            self.publish(SessionEvent::Ended { cause: why });
        }
        for operation in self.operations.take_all() {
            operation.finish(Err(error.clone()), &mut self.effects);
        }
    }
}
