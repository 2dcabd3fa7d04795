//! What the coordinator says.

use tokio::time::Instant;

use super::{Held, LinkState, Machine, Phase, Thing, Timing, Wish};
use crate::{
    cli::{exit, failure::Failure, output},
    grpc::pb::{
        CloseSession, LostReason, NotGrantedReason, SessionOpened, SessionResponse,
        session_request::Request, session_response::Response,
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
                self.say(output::waiting(&self.plan.wish.words(), &waiting));
            }
            Some(Response::WaitingForAll(told)) if answers_wait && !self.said_waiting => {
                self.said_waiting = true;
                let waiting = told.waiting.unwrap_or_default();
                self.say(output::waiting(&told.name, &waiting));
            }
            Some(Response::WaitingForPermits(waiting)) if answers_wait && !self.said_waiting => {
                self.said_waiting = true;
                let name = self.plan.wish.words();
                self.say(output::permits::waiting(&name, &waiting));
            }
            Some(Response::Granted(grant)) if answers_wait => {
                self.on_granted(now, vec![Thing::Lock(grant)]);
            }
            Some(Response::GrantedAll(all)) if answers_wait => {
                self.on_granted(now, all.grants.into_iter().map(Thing::Lock).collect());
            }
            Some(Response::PermitsGranted(grant)) if answers_wait => {
                self.on_granted(now, vec![Thing::Permits(grant)]);
            }
            Some(Response::NotGranted(refusal)) if answers_wait => {
                let holder = output::holder(refusal.holder_remaining_lease.as_ref());
                self.on_not_granted(now, refusal.reason(), &holder);
            }
            Some(Response::PermitsNotGranted(refusal)) if answers_wait => {
                let available = format!("available={}", refusal.available);
                self.on_not_granted(now, refusal.reason(), &available);
            }
            Some(Response::Failed(status)) if answers_wait => {
                self.refuse_wait(now, Failure::from_frame(&status));
            }
            Some(Response::Renewed(renewed)) => {
                self.on_renewed(now, op_id, renewed.grant.map(Thing::Lock));
            }
            Some(Response::PermitsRenewed(renewed)) => {
                let grant = renewed.grants.into_iter().next();
                self.on_renewed(now, op_id, grant.map(Thing::Permits));
            }
            Some(Response::Failed(status)) => {
                self.on_renewal_failed(now, op_id, &Failure::from_frame(&status));
            }
            Some(Response::Lost(lost)) => {
                let reason = lost.reason();
                self.on_lost(now, lost.grant.map(Thing::Lock), reason);
            }
            Some(Response::PermitsLost(lost)) => {
                let reason = lost.reason();
                self.on_lost(now, lost.grant.map(Thing::Permits), reason);
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
        let resumed = Thing::resumed(&opened);
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
            Phase::Confirming { .. } | Phase::Running => self.go_on(now, sent_at, &resumed),
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

    /// Each grant was checked by renewing it.
    fn go_on(&mut self, now: Instant, sent_at: Instant, resumed: &[Thing]) {
        if !self.on_resumed(now, sent_at, resumed) {
            let what = self.all_that_is_held();
            let why = "the coordinator does not know the grant any more";
            self.stop(now, &what, why);
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
        // One too long for the protocol is one without limit.
        let wait_timeout = wait_timeout.and_then(|it| it.try_into().ok());
        let request = self.plan.request(wait_timeout);
        self.send(op_id, request);
    }

    fn on_granted(&mut self, now: Instant, things: Vec<Thing>) {
        let lease = things.iter().map(Thing::lease).min().unwrap_or_default();
        match Timing::new(lease, self.plan.kill_after) {
            Ok(timing) => {
                self.phase = Phase::Confirming { until: now + lease };
                self.held = Some(Held::new(things, timing, now));
            }
            Err(problem) => self.refuse_wait(now, Failure::local(exit::USAGE, problem)),
        }
    }

    fn on_not_granted(&mut self, now: Instant, reason: NotGrantedReason, holder: &str) {
        let why = match reason {
            NotGrantedReason::WaitTimeout => match self.plan.wish {
                Wish::Locks(_) => "held by another",
                Wish::Permits { .. } => "too few permits are free",
            },
            NotGrantedReason::Cancelled => "the wait was cancelled",
            NotGrantedReason::Unspecified => "not granted",
        };
        self.say(format!("{}: {why}, {holder}", self.plan.wish.words()));
        self.close(now, self.plan.conflict_exit_code);
    }

    fn on_lost(&mut self, now: Instant, lost: Option<Thing>, reason: LostReason) {
        let held = self.held.as_ref();
        let ours = lost.and_then(|lost| held?.find(&lost).map(|item| item.thing.words()));
        if let Some(what) = ours {
            self.stop(now, &what, in_words(reason));
        }
    }

    /// For messages about all of it.
    pub(super) fn all_that_is_held(&self) -> String {
        let held = self.held.iter().flat_map(|held| &held.items);
        let words: Vec<String> = held.map(|item| item.thing.words()).collect();
        words.join(", ")
    }
}

fn in_words(reason: LostReason) -> &'static str {
    match reason {
        LostReason::Expired => "its lease ran out",
        LostReason::TakenOver => "somebody else holds it",
        LostReason::StoreUnreachable => "the store could not be reached in time",
        LostReason::ForceReleased => "an operator took it away",
        LostReason::Unspecified => "no reason given",
    }
}
