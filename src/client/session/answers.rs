//! What the coordinator says, and what follows from it.

use lockkeeper_api::pb::{
    LostReason, SessionResponse, Waiting, session_request::Request, session_response::Response,
};
use tokio::time::Instant;

use super::{
    SessionEvent, SessionState,
    command::{Answer, ended_already},
    connection::Connection,
    driver::{Driver, Timer},
    operation::{Operation, Purpose},
    taken::{Taken, taken},
};
use crate::{Error, Thing, error, guard::Loss, thing};

/// Between two attempts, if the coordinator names no other time.
const RETRY_INTERVAL: std::time::Duration = std::time::Duration::from_millis(200);

impl Driver {
    pub(super) fn on_frame(&mut self, now: Instant, frame: SessionResponse) {
        let op_id = frame.op_id;
        let Some(response) = frame.response else {
            return;
        };
        match response {
            Response::Lost(told) => {
                let loss = Loss {
                    reason: told.reason(),
                    detail: told.detail,
                };
                self.on_lost(told.grant.map(Thing::Lock), &loss);
            }
            Response::PermitsLost(told) => {
                let loss = Loss::new(told.reason());
                self.on_lost(told.grant.map(Thing::Permits), &loss);
            }
            Response::AtRisk(risk) => {
                let _ = self.state.send(SessionState::AtRisk);
                let valid_for = thing::to_std(risk.valid_for);
                self.tell(SessionEvent::AtRisk { valid_for });
            }
            Response::Recovered(_) => {
                let _ = self.state.send(SessionState::Connected);
                self.tell(SessionEvent::Recovered);
            }
            Response::GoingAway(_) => self.on_going_away(now),
            Response::Waiting(waiting) => self.on_waiting(op_id, None, waiting),
            Response::WaitingForAll(told) => {
                self.on_waiting(op_id, Some(told.name), told.waiting.unwrap_or_default());
            }
            Response::WaitingForPermits(waiting) => {
                if let Some(name) = self.name_of(op_id) {
                    self.tell(SessionEvent::WaitingForPermits { name, waiting });
                }
            }
            Response::WaitingForLatch(_) | Response::Opened(_) => {}
            Response::Failed(status) => self.on_failed(now, op_id, Error::from_frame(&status)),
            response => self.on_answer(now, op_id, response),
        }
    }

    fn on_waiting(&mut self, op_id: u64, busy: Option<String>, waiting: Waiting) {
        if let Some(name) = self.name_of(op_id) {
            let name = busy.unwrap_or(name);
            self.tell(SessionEvent::Waiting { name, waiting });
        }
    }

    /// What an operation is about whose answer is waited for.
    fn name_of(&self, op_id: u64) -> Option<String> {
        let operation = self.operations.get(&op_id)?;
        operation.answer.as_ref()?;
        Some(name_of(&operation.request))
    }

    /// The end of an operation that is no failure.
    fn on_answer(&mut self, now: Instant, op_id: u64, response: Response) {
        let Some(operation) = self.operations.remove(&op_id) else {
            return;
        };
        let sent_at = operation.sent_at.unwrap_or(now);
        match response {
            Response::Renewed(renewed) => {
                let thing = renewed.grant.clone().map(Thing::Lock);
                self.on_renewed(now, sent_at, thing.as_slice());
                self.finish_renewal(now, operation, Response::Renewed(renewed));
            }
            Response::PermitsRenewed(renewed) => {
                let things: Vec<_> = renewed.grants.iter().cloned().map(Thing::Permits).collect();
                self.on_renewed(now, sent_at, &things);
                self.finish_renewal(now, operation, Response::PermitsRenewed(renewed));
            }
            response => match taken(response) {
                Taken::Things(things) => self.on_taken(now, operation, things),
                // Its end has ended the wait.
                Taken::Nothing(..) if self.closing.is_some() => {
                    answer(operation, Err(ended_already()));
                }
                Taken::Nothing(reason, busy) => {
                    let refusal = Error::NotGranted {
                        name: name_of(&operation.request),
                        reason,
                        holder_remaining_lease: busy.holder_remaining_lease,
                        available: busy.available,
                    };
                    answer(operation, Err(refusal));
                }
                Taken::Other(response) => match operation.purpose {
                    Purpose::Release(guard) => self.on_released(guard, Ok(response)),
                    _ => answer(operation, Ok(Answer::Other(response))),
                },
            },
        }
    }

    fn finish_renewal(&mut self, now: Instant, operation: Operation, response: Response) {
        if let Purpose::Renewal(id) = operation.purpose
            && let Some(holding) = self.book.holdings.get_mut(&id)
        {
            holding.renewal = None;
            self.look_after(now, id);
        }
        answer(operation, Ok(Answer::Other(response)));
    }

    fn on_renewed(&mut self, now: Instant, sent_at: Instant, things: &[Thing]) {
        for thing in things {
            if let Some(id) = self.book.find(thing) {
                self.renewed(now, id, sent_at, thing.clone());
            }
        }
    }

    fn on_failed(&mut self, now: Instant, op_id: u64, failure: Error) {
        let lease = self.lease;
        let Some(operation) = self.operations.get_mut(&op_id) else {
            return;
        };
        if self.closing.is_some() && operation.purpose == Purpose::Caller {
            if let Some(operation) = self.operations.remove(&op_id) {
                answer(operation, Err(ended_already()));
            }
            return;
        }
        let is_not_owner = failure.reason().is_some_and(|it| it == "NOT_OWNER");
        if let Purpose::Renewal(id) = operation.purpose {
            self.operations.remove(&op_id);
            self.on_renewal_failed(now, id, is_not_owner.then(|| loss_of(&failure)));
            return;
        }
        // What the first attempt took has been given back since; this is a new one.
        if operation.takes() && operation.is_in_doubt && is_not_owner {
            operation.renew_request_id();
            self.send(now, op_id);
            return;
        }
        if operation.may_retry(&failure, now, lease) {
            operation.failing_since.get_or_insert(now);
            operation.is_in_doubt = true;
            operation.sent_at = None;
            let pause = failure.retry_delay().unwrap_or(RETRY_INTERVAL);
            let at = now + pause.mul_f64(rand::random_range(0.5..1.0));
            operation.retry_at = Some(at);
            self.timers.insert((at, Timer::Operation(op_id)));
            return;
        }
        let Some(operation) = self.operations.remove(&op_id) else {
            return;
        };
        match operation.purpose {
            Purpose::Release(guard) => self.on_released(guard, Err(failure)),
            _ => answer(operation, Err(failure)),
        }
    }

    fn on_renewal_failed(&mut self, now: Instant, id: u64, loss: Option<Loss>) {
        let Some(holding) = self.book.holdings.get_mut(&id) else {
            return;
        };
        holding.renewal = None;
        if let Some(loss) = loss {
            self.lose(id, &loss);
            return;
        }
        // Only time decides: neither a store that is down nor a coordinator that refuses to renew
        // has taken it away.
        let again = now + RETRY_INTERVAL.min(self.lease / 6);
        holding.renew_at = Some(again);
        self.timers.insert((again, Timer::Holding(id)));
    }

    fn on_lost(&mut self, gone: Option<Thing>, loss: &Loss) {
        let Some(gone) = gone else {
            return;
        };
        let Some(id) = self.book.find(&gone) else {
            return;
        };
        // An older grant of the same owner; it holds the lock anew.
        let is_older = |held: &Thing| match (held.lock(), gone.lock()) {
            (Some(held), Some(gone)) => gone.fencing_token < held.fencing_token,
            _ => false,
        };
        if self
            .book
            .holdings
            .get(&id)
            .is_some_and(|it| is_older(&it.thing))
        {
            return;
        }
        self.lose(id, loss);
    }

    /// Whether a renewal can be sent.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.connection, Connection::Up { .. })
    }
}

fn name_of(request: &Request) -> String {
    match request {
        Request::Acquire(it) => it.name.clone(),
        Request::TryAcquire(it) => it.name.clone(),
        Request::AcquirePermits(it) => it.name.clone(),
        Request::TryAcquirePermits(it) => it.name.clone(),
        Request::AcquireAll(it) => names(&it.locks),
        Request::TryAcquireAll(it) => names(&it.locks),
        _ => String::new(),
    }
}

fn names(locks: &[lockkeeper_api::pb::LockSpec]) -> String {
    let names: Vec<&str> = locks.iter().map(|lock| lock.name.as_str()).collect();
    names.join(", ")
}

fn loss_of(failure: &Error) -> Loss {
    Loss::new(match failure.status().and_then(error::state).as_deref() {
        Some("held_by_another") => LostReason::TakenOver,
        _ => LostReason::Expired,
    })
}

fn answer(operation: Operation, ended: Result<Answer, Error>) {
    if let Some(answer) = operation.answer {
        let _ = answer.send(ended);
    }
}
