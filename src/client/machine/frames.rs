//! Frames of the coordinator: answers to operations, and notices.

use lockkeeper_api::pb::{
    LostReason, SessionResponse, Waiting, YieldRequested, session_response::Response,
};
use tokio::time::Instant;

use super::{
    event::{Completion, Effect, closed},
    operation::Purpose,
    operations::{RETRY_PAUSE, is_not_owner},
    outcome::Outcome,
    state::Machine,
    stream::State,
};
use crate::{
    Error,
    duration::to_std,
    error,
    holding::{Holding, release_of},
    session::SessionEvent,
    validity::{Loss, YieldRequest},
};

impl Machine {
    pub(super) fn on_received(&mut self, now: Instant, frame: SessionResponse) {
        let op_id = frame.op_id;
        match (&self.stream.state, frame.response) {
            (State::Opening { .. }, Some(Response::Opened(opened))) => self.on_opened(now, opened),
            (State::Opening { .. }, _) => {
                self.effects.push(Effect::Disconnect);
                let why = "the coordinator did not say that the session is open";
                self.on_attempt_failed(now, self.stream.unreachable(why));
            }
            (State::Up { .. }, response) => {
                self.stream.on_heard(now);
                if let Some(response) = response {
                    self.on_response(now, op_id, response);
                }
            }
            (State::Down { .. } | State::Ended { .. }, _) => {}
        }
    }

    fn on_response(&mut self, now: Instant, op_id: u64, response: Response) {
        match response {
            Response::Lost(notice) => {
                let loss = Loss {
                    reason: notice.reason(),
                    open_from: now + to_std(notice.valid_for),
                    detail: notice.detail,
                };
                self.on_lost(notice.grant.map(Holding::Lock), &loss);
            }
            Response::PermitsLost(notice) => {
                let loss = Loss::new(notice.reason(), now);
                self.on_lost(notice.grant.map(Holding::Permits), &loss);
            }
            Response::YieldRequested(notice) => self.on_yield_requested(now, notice),
            Response::AtRisk(risk) => {
                let valid_for = to_std(risk.valid_for);
                self.publish(SessionEvent::AtRisk { valid_for });
            }
            Response::Recovered(_) => self.publish(SessionEvent::Recovered),
            Response::GoingAway(_) => self.stream.on_going_away(now),
            Response::Waiting(waiting) => self.on_waiting(op_id, None, waiting),
            Response::WaitingForAll(all) => {
                self.on_waiting(op_id, Some(all.name), all.waiting.unwrap_or_default());
            }
            Response::WaitingForPermits(waiting) => {
                if let Some(name) = self.operations.awaited_name(op_id) {
                    self.publish(SessionEvent::WaitingForPermits { name, waiting });
                }
            }
            Response::Opened(opened) => self.stream.keep_resume_token(&opened),
            Response::WaitingForLatch(_) | Response::Pong(_) => {}
            Response::Failed(status) => self.on_failed(now, op_id, Error::from_frame(&status)),
            response => self.on_answer(now, op_id, response),
        }
    }

    fn on_lost(&mut self, gone: Option<Holding>, loss: &Loss) {
        if let Some(gone) = gone {
            self.table.on_lost(&gone, loss, &mut self.effects);
        }
    }

    fn on_yield_requested(&mut self, now: Instant, notice: YieldRequested) {
        let Some(grant) = notice.grant else {
            return;
        };
        let request = YieldRequest {
            name: grant.name.clone(),
            by: notice.by,
            reason: notice.reason,
            deadline: now + to_std(notice.within),
            preempts: notice.preempt,
        };
        if self.table.on_asked(&grant.into(), &request) {
            self.publish(SessionEvent::YieldRequested(request));
        }
    }

    fn on_waiting(&mut self, op_id: u64, busy: Option<String>, waiting: Waiting) {
        if let Some(name) = self.operations.awaited_name(op_id) {
            let name = busy.unwrap_or(name);
            self.publish(SessionEvent::Waiting { name, waiting });
        }
    }

    /// The end of an operation that did not fail.
    fn on_answer(&mut self, now: Instant, op_id: u64, response: Response) {
        let Some((operation, sent_at)) = self.operations.take_sent(op_id) else {
            return;
        };
        self.stream.on_progress();
        let outcome = Outcome::from(response);
        if let Outcome::Renewed(holdings, _) = &outcome {
            for holding in holdings {
                self.table
                    .renewed(now, sent_at, holding.clone(), &mut self.effects);
            }
        }
        if let (Purpose::Renewal, Some((id, _))) = (operation.purpose, operation.renews) {
            self.table.on_renewal_answered(now, id);
        }
        if let Purpose::Release(guard) = operation.purpose {
            self.table.on_released(guard);
        }
        let result = match outcome {
            // The end of the session releases it, and has ended the wait.
            Outcome::Granted(_) | Outcome::NotGranted(_) if self.is_closing() => Err(closed()),
            Outcome::Granted(holdings) if operation.has_caller => {
                self.table
                    .grant(now, sent_at, op_id, holdings, &mut self.effects);
                return;
            }
            Outcome::Granted(holdings) => {
                let release = release_of(&holdings);
                return self.operations.start(release, Purpose::LateRelease);
            }
            Outcome::NotGranted(not_granted) => Err(not_granted.of(operation.name())),
            Outcome::Renewed(_, response) | Outcome::Other(response) => {
                Ok(Completion::Other(response))
            }
        };
        operation.finish(result, &mut self.effects);
    }

    fn on_failed(&mut self, now: Instant, op_id: u64, failure: Error) {
        let Some((operation, _)) = self.operations.take_sent(op_id) else {
            return;
        };
        self.stream.on_progress();
        if self.is_closing() && operation.purpose == Purpose::Caller {
            return operation.finish(Err(closed()), &mut self.effects);
        }
        let lease = self.stream.lease;
        if let Some(renewed) = operation.renews {
            if is_not_owner(&failure) {
                let loss = loss_of(&failure, now);
                self.table.on_not_owner(renewed, &loss, &mut self.effects);
            }
            if operation.purpose == Purpose::Renewal {
                let retry_at = now + RETRY_PAUSE.min(lease / 6);
                return self.table.on_renewal_failed(now, renewed.0, retry_at);
            }
        }
        let over = self.operations.on_failed(now, operation, &failure, lease);
        if let Some(operation) = over {
            if let Purpose::Release(guard) = operation.purpose {
                self.table.on_released(guard);
            }
            operation.finish(Err(failure), &mut self.effects);
        } else if self.operations.is_late(op_id, now) {
            let result = Err(failure);
            self.effects.push(Effect::Done { op_id, result });
            self.abandon(op_id);
        }
    }
}

fn loss_of(failure: &Error, now: Instant) -> Loss {
    let reason = match failure.status().and_then(error::state).as_deref() {
        Some("held_by_another") => LostReason::TakenOver,
        _ => LostReason::Expired,
    };
    Loss::new(reason, now)
}
