//! The task of a session: one loop over frames of the coordinator, commands of handles, and the
//! clock. It passes each event to the part that it concerns, and what follows from it to the
//! others.

use std::future::pending;

use lockkeeper_api::pb::{
    CloseSession, LostReason, SessionOpened, SessionResponse, Waiting, session_request::Request,
    session_response::Response,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    SessionEvent,
    closing::Closing,
    command::{Answer, Command, Commands, Reply, closed},
    event::Publisher,
    handle::Session,
    holding_table::{HoldingTable, RenewalTimes, Upkeep},
    operation::{Operation, Purpose},
    operations::{Operations, RETRY_INTERVAL, is_not_owner},
    outcome::Outcome,
    transport::{SessionTransport, TransportEvent, frame},
};
use crate::{
    Error,
    duration::to_std,
    error,
    holding::{Holding, release_of},
    validity::Loss,
};

/// The task of a session. See the module.
pub(super) struct Driver {
    transport: SessionTransport,
    table: HoldingTable,
    operations: Operations,
    publisher: Publisher,
    commands: mpsc::UnboundedReceiver<Command>,
    closing: Option<Closing>,
    /// Why the session has ended.
    ended: Option<String>,
}

// === impl Driver ===

impl Driver {
    /// The task of an open session, and its first handle.
    pub(super) fn new(transport: SessionTransport, opened: &SessionOpened) -> (Self, Session) {
        let (handle, commands) = Commands::new();
        let own = handle.downgrade();
        let publisher = Publisher::new();
        let session = Session {
            commands: handle,
            id: opened.session_id.clone(),
            lease: transport.lease,
            state: publisher.state.subscribe(),
            events: publisher.events.downgrade(),
        };
        let driver = Self {
            transport,
            operations: Operations::new(own.ids.clone()),
            table: HoldingTable::new(own, RenewalTimes::of(opened)),
            publisher,
            commands,
            closing: None,
            ended: None,
        };
        (driver, session)
    }

    /// Runs until the session has ended.
    pub(super) async fn run(mut self) {
        while self.ended.is_none() {
            let wake_at = self.wake_at();
            let tick = async {
                match wake_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                // Losses come before commands.
                event = self.transport.next() => self.on_event(Instant::now(), event),
                command = self.commands.recv(), if self.closing.is_none() => {
                    self.on_command(Instant::now(), command);
                }
                () = tick => {}
            }
            self.meet_deadlines(Instant::now());
        }
        self.finish();
    }

    fn wake_at(&self) -> Option<Instant> {
        let instants = [
            self.table.wake_at(),
            self.operations.wake_at(),
            self.closing.as_ref().map(|it| it.deadline),
            self.transport.wake_at(),
        ];
        instants.into_iter().flatten().min()
    }

    fn meet_deadlines(&mut self, now: Instant) {
        while let Some(id) = self.table.pop_due(now) {
            self.check(now, id);
        }
        self.operations.retry_due(now, &self.transport);
        if self.closing.as_mut().is_some_and(|it| it.check(now)) {
            self.end("it was closed, and no coordinator has answered");
        }
        if self.transport.is_expired(now) {
            self.end("no coordinator could be reached for as long as its lease");
        }
        self.transport.ping_if_silent(now);
        if self.transport.must_leave(now) {
            self.on_stream_ended(now, None);
        } else if self.transport.must_resume(now) {
            self.resume(now);
        }
    }

    // --- commands

    fn on_command(&mut self, now: Instant, command: Option<Command>) {
        match command {
            Some(Command::Start(new)) => {
                self.operations.start_for_caller(now, &self.transport, new);
            }
            Some(Command::Abandon(op_id)) => self.operations.abandon(&self.transport, op_id),
            Some(Command::Release(guard, reply)) => self.release(now, guard, reply),
            Some(Command::Close(reply)) => self.close(now, Some(reply)),
            // All handles and guards are dropped.
            None => self.close(now, None),
        }
    }

    fn start(&mut self, now: Instant, request: Request, purpose: Purpose) {
        self.operations
            .start(now, &self.transport, request, purpose);
    }

    fn release(&mut self, now: Instant, guard: u64, reply: Option<Reply<()>>) {
        if let Some(request) = self.table.release(guard, reply) {
            self.start(now, request, Purpose::Release(guard));
        }
    }

    fn close(&mut self, now: Instant, reply: Option<Reply<()>>) {
        self.closing = Some(Closing::new(now, reply));
        self.send_close();
    }

    fn send_close(&mut self) {
        if let Some(closing) = &mut self.closing
            && self.transport.is_up()
        {
            closing.is_sent = true;
            self.transport
                .send(frame(0, Request::Close(CloseSession {})));
        }
    }

    // --- the stream

    fn on_event(&mut self, now: Instant, event: TransportEvent) {
        match event {
            TransportEvent::Frame(frame) => self.on_frame(now, frame),
            TransportEvent::Ended(failure) => self.on_stream_ended(now, failure.as_ref()),
            TransportEvent::Attempted(attempted) => {
                match self.transport.on_attempted(now, attempted) {
                    Ok(Some((opened, sent_at))) => self.on_resumed(now, &opened, sent_at),
                    Ok(None) => {}
                    Err(refused) => self.end(&refused.to_string()),
                }
            }
        }
    }

    fn on_stream_ended(&mut self, now: Instant, failure: Option<&Error>) {
        if failure.is_none() && self.closing.as_ref().is_some_and(|it| it.is_sent) {
            self.end("it was closed");
            return;
        }
        let cause = self.transport.on_ended(now, failure);
        self.operations.on_stream_ended();
        self.table.on_stream_ended();
        self.publisher.publish(SessionEvent::Broken { cause });
    }

    fn resume(&mut self, now: Instant) {
        let (mut grants, permits) = self.table.grants();
        let possible = self.operations.possible_grants();
        grants.extend(possible.filter(|it| !self.table.contains(&it.clone().into())));
        self.transport.resume(now, grants, permits);
    }

    /// The coordinator has renewed each grant that was named; losses follow.
    fn on_resumed(&mut self, now: Instant, opened: &SessionOpened, sent_at: Instant) {
        self.publisher.publish(SessionEvent::Resumed);
        self.table.times = RenewalTimes::of(opened);
        let still_held = Holding::resumed(opened);
        for holding in &still_held {
            self.table.renewed(now, sent_at, holding.clone());
        }
        if self.closing.is_some() {
            self.send_close();
            return;
        }
        self.operations
            .on_resumed(now, &self.transport, &still_held);
        self.table.on_resumed(now);
    }

    // --- frames

    fn on_frame(&mut self, now: Instant, frame: SessionResponse) {
        let op_id = frame.op_id;
        let Some(response) = frame.response else {
            return;
        };
        match response {
            Response::Lost(notice) => {
                let loss = Loss {
                    reason: notice.reason(),
                    detail: notice.detail,
                };
                self.on_lost(now, notice.grant.map(Holding::Lock), &loss);
            }
            Response::PermitsLost(notice) => {
                let loss = Loss::new(notice.reason());
                self.on_lost(now, notice.grant.map(Holding::Permits), &loss);
            }
            Response::AtRisk(risk) => {
                let valid_for = to_std(risk.valid_for);
                self.publisher.publish(SessionEvent::AtRisk { valid_for });
            }
            Response::Recovered(_) => self.publisher.publish(SessionEvent::Recovered),
            Response::GoingAway(_) => self.transport.on_going_away(now),
            Response::Waiting(waiting) => self.on_waiting(op_id, None, waiting),
            Response::WaitingForAll(all) => {
                self.on_waiting(op_id, Some(all.name), all.waiting.unwrap_or_default());
            }
            Response::WaitingForPermits(waiting) => {
                if let Some(name) = self.operations.awaited_name(op_id) {
                    self.publisher
                        .publish(SessionEvent::WaitingForPermits { name, waiting });
                }
            }
            Response::WaitingForLatch(_) | Response::Opened(_) | Response::Pong(_) => {}
            Response::Failed(status) => self.on_failed(now, op_id, Error::from_frame(&status)),
            response => self.on_answer(now, op_id, response),
        }
    }

    fn on_lost(&mut self, now: Instant, gone: Option<Holding>, loss: &Loss) {
        if let Some(gone) = gone {
            let failed = self.table.on_lost(&gone, loss);
            self.release_failed(now, failed);
        }
    }

    fn on_waiting(&mut self, op_id: u64, busy: Option<String>, waiting: Waiting) {
        if let Some(name) = self.operations.awaited_name(op_id) {
            let name = busy.unwrap_or(name);
            self.publisher
                .publish(SessionEvent::Waiting { name, waiting });
        }
    }

    /// The end of an operation that did not fail.
    fn on_answer(&mut self, now: Instant, op_id: u64, response: Response) {
        let Some(operation) = self.operations.take(op_id) else {
            return;
        };
        let sent_at = operation.sent_at.unwrap_or(now);
        match &response {
            Response::Renewed(renewed) => {
                if let Some(grant) = &renewed.grant {
                    self.table.renewed(now, sent_at, grant.clone().into());
                }
            }
            Response::PermitsRenewed(renewed) => {
                for grant in &renewed.grants {
                    self.table.renewed(now, sent_at, grant.clone().into());
                }
            }
            _ => {}
        }
        match (operation.purpose, response.into()) {
            (Purpose::Renewal(id), _) => {
                self.table.on_renewal_answered(id);
                self.check(now, id);
            }
            (Purpose::Release(guard), Outcome::Other(_)) => self.table.on_released(guard, Ok(())),
            (_, Outcome::Granted(holdings)) => self.on_granted(now, operation, holdings),
            // The end of the session has ended the wait.
            (_, Outcome::NotGranted(_)) if self.closing.is_some() => {
                operation.finish(Err(closed()));
            }
            (_, Outcome::NotGranted(not_granted)) => {
                let name = operation.name();
                operation.finish(Err(not_granted.of(name)));
            }
            (_, Outcome::Other(response)) => operation.finish(Ok(Answer::Other(response))),
        }
    }

    fn on_granted(&mut self, now: Instant, operation: Operation, holdings: Vec<Holding>) {
        let Some(reply) = operation.reply else {
            self.start(now, release_of(&holdings), Purpose::LateRelease);
            return;
        };
        let sent_at = operation.sent_at.unwrap_or(now);
        for id in self.table.grant(now, sent_at, holdings, reply) {
            self.check(now, id);
        }
    }

    fn on_failed(&mut self, now: Instant, op_id: u64, failure: Error) {
        if self.closing.is_some() && self.operations.is_of_caller(op_id) {
            if let Some(operation) = self.operations.take(op_id) {
                operation.finish(Err(closed()));
            }
            return;
        }
        let lease = self.transport.lease;
        let over = self
            .operations
            .on_failed(now, &self.transport, op_id, &failure, lease);
        let Some(operation) = over else {
            return;
        };
        match operation.purpose {
            Purpose::Renewal(id) if is_not_owner(&failure) => {
                let failed = self.table.lose(id, &loss_of(&failure));
                self.release_failed(now, failed);
            }
            Purpose::Renewal(id) => {
                let retry_at = now + RETRY_INTERVAL.min(lease / 6);
                self.table.on_renewal_failed(id, retry_at);
            }
            Purpose::Release(guard) => self.table.on_released(guard, Err(failure)),
            Purpose::Caller | Purpose::LateRelease | Purpose::Cleanup => {
                operation.finish(Err(failure));
            }
        }
    }

    // --- holdings

    /// Renews a holding if that is due, or reports that it is lost.
    fn check(&mut self, now: Instant, id: u64) {
        match self.table.check(now, id, self.transport.is_up()) {
            Upkeep::Nothing => {}
            Upkeep::Renew(request) => self.start(now, request, Purpose::Renewal(id)),
            Upkeep::Lost(failed) => self.release_failed(now, failed),
        }
    }

    fn release_failed(&mut self, now: Instant, guards: Vec<u64>) {
        for guard in guards {
            self.release(now, guard, None);
        }
    }

    // --- the end

    fn end(&mut self, why: &str) {
        self.ended.get_or_insert_with(|| why.to_owned());
    }

    /// The session has ended: nothing is held, and no command will be answered.
    fn finish(mut self) {
        let cause = self.ended.unwrap_or_default();
        let error = Error::SessionEnded(cause.clone());
        self.table.lose_all(&Loss {
            reason: LostReason::Unspecified,
            detail: error.to_string(),
        });
        self.publisher.publish(SessionEvent::Ended { cause });
        self.operations.end(&error);
        self.table.end(&error);
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Start(new) => {
                    let _ = new.reply.send(Err(error.clone()));
                }
                Command::Release(_, Some(reply)) => {
                    let _ = reply.send(Err(error.clone()));
                }
                Command::Release(_, None) | Command::Abandon(_) | Command::Close(_) => {}
            }
        }
        if let Some(closing) = self.closing {
            closing.finish(error);
        }
    }
}

fn loss_of(failure: &Error) -> Loss {
    Loss::new(match failure.status().and_then(error::state).as_deref() {
        Some("held_by_another") => LostReason::TakenOver,
        _ => LostReason::Expired,
    })
}
