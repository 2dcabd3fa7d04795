//! What the coordinator says.

use tokio::time::Instant;

use super::{Held, LinkState, Machine, Phase, Timing};
use crate::{
    cli::{exit, failure::Failure, output},
    grpc::pb::{
        AcquireRequest, CloseSession, Grant, LostReason, NotGranted, NotGrantedReason,
        SessionOpened, SessionResponse, session_request::Request, session_response::Response,
    },
};

impl Machine {
    pub(super) fn on_frame(&mut self, now: Instant, frame: SessionResponse) {
        let op_id = frame.op_id;
        let answers_wait =
            matches!(self.phase, Phase::Waiting { op_id: ours, .. } if ours == op_id && op_id != 0);
        match frame.response {
            Some(Response::Opened(opened)) => self.on_opened(now, opened),
            Some(Response::Waiting(waiting)) if answers_wait && !self.said_waiting => {
                self.said_waiting = true;
                self.say(output::waiting(&self.plan.name, &waiting));
            }
            Some(Response::Granted(grant)) if answers_wait => self.on_granted(now, grant),
            Some(Response::NotGranted(refusal)) if answers_wait => {
                self.on_not_granted(now, &refusal);
            }
            Some(Response::Failed(status)) if answers_wait => {
                self.refuse_wait(now, Failure::from_frame(&status));
            }
            Some(Response::Renewed(renewed)) => self.on_renewed(now, op_id, renewed.grant),
            Some(Response::Failed(status)) => {
                self.on_renewal_failed(now, op_id, &Failure::from_frame(&status));
            }
            Some(Response::Lost(lost)) => {
                let reason = lost.reason();
                if lost.grant.is_some_and(|grant| self.is_ours(&grant)) {
                    self.stop(now, in_words(reason));
                }
            }
            Some(Response::AtRisk(_)) => {
                self.say("renewals are failing; the command is stopped if that goes on".to_owned());
            }
            Some(Response::Recovered(_)) => self.say("renewals succeed again".to_owned()),
            Some(Response::GoingAway(_)) => {
                self.on_link_ended(
                    now,
                    Some(Failure::unavailable("the coordinator is stopping")),
                );
            }
            // Answers to what was not asked, or no more; the newest state has been acted upon.
            _ => {}
        }
    }

    fn on_opened(&mut self, now: Instant, opened: SessionOpened) {
        let LinkState::Opening { sent_at, .. } = self.link else {
            return;
        };
        self.link = LinkState::Up;
        self.said_broken = false;
        let session_lease = opened.lease;
        let resumed = opened
            .grants
            .iter()
            .find(|grant| self.is_ours(grant))
            .cloned();
        if self.session.is_none() {
            self.session = Some(opened);
        }
        match self.phase {
            Phase::Waiting { .. } => {
                // Refused before the wait rather than after it.
                let lease = session_lease.and_then(|lease| lease.try_into().ok());
                let timing =
                    lease.map_or(Ok(()), |it| Timing::new(it, self.plan.kill_after).map(drop));
                match timing {
                    Ok(()) => self.acquire(now),
                    Err(problem) => self.refuse_wait(now, Failure::local(exit::USAGE, problem)),
                }
            }
            Phase::Confirming { .. } | Phase::Running => match resumed {
                // Each grant was checked by renewing it.
                Some(grant) => self.on_renewed_since(now, sent_at, &grant),
                None => self.stop(now, "the coordinator does not know the grant any more"),
            },
            Phase::Closing { code, until, .. } => {
                self.phase = Phase::Closing {
                    code,
                    until,
                    asked: true,
                };
                self.send(0, Request::Close(CloseSession {}));
            }
            _ => {}
        }
    }

    fn acquire(&mut self, now: Instant) {
        let op_id = self.next_op_id();
        self.phase = Phase::Waiting {
            op_id,
            give_up_at: None,
        };
        let wait_timeout = self
            .wait_until
            .map(|until| until.saturating_duration_since(now));
        let request = AcquireRequest {
            name: self.plan.name.clone(),
            mode: self.plan.mode.into(),
            // One too long for the protocol is one without limit.
            wait_timeout: wait_timeout.and_then(|it| it.try_into().ok()),
            ..AcquireRequest::default()
        };
        self.send(op_id, Request::Acquire(request));
    }

    fn on_granted(&mut self, now: Instant, grant: Grant) {
        let lease = grant
            .lease
            .and_then(|lease| lease.try_into().ok())
            .unwrap_or_default();
        match Timing::new(lease, self.plan.kill_after) {
            Ok(timing) => {
                self.phase = Phase::Confirming { until: now + lease };
                self.held = Some(Held {
                    grant,
                    timing,
                    validity: None,
                    renewing: None,
                    renew_at: now,
                });
            }
            Err(problem) => self.refuse_wait(now, Failure::local(exit::USAGE, problem)),
        }
    }

    fn on_not_granted(&mut self, now: Instant, refusal: &NotGranted) {
        let why = match refusal.reason() {
            NotGrantedReason::WaitTimeout => "held by another",
            NotGrantedReason::Cancelled => "the wait was cancelled",
            NotGrantedReason::Unspecified => "not granted",
        };
        let holder = output::holder(refusal.holder_remaining_lease.as_ref());
        self.say(format!("{}: {why}, {holder}", self.plan.name));
        self.close(now, self.plan.conflict_exit_code);
    }

    /// Whether this is the grant that is held. Within a session the name and the owner tell; the store may have forgotten the token.
    pub(super) fn is_ours(&self, grant: &Grant) -> bool {
        self.held
            .as_ref()
            .is_some_and(|held| held.grant.name == grant.name && held.grant.owner == grant.owner)
    }
}

fn in_words(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => "its lease ran out",
        LostReason::TakenOver => "somebody else holds it",
        LostReason::StoreUnreachable => "the store could not be reached in time",
        LostReason::Unspecified => "no reason given",
    }
}
