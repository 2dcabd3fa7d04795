//! How results and events of a session change the state.

use std::time::Duration;

use lockkeeper_api::pb::DescribeResponse;
use lockkeeper_client::{
    Error, LostReason, NotGrantedReason, SessionEvent, YieldRequest, why_lost,
};
use tokio::time::Instant;

use super::{
    event::Action,
    state::{Machine, Phase, RETRY_INTERVAL},
};
use crate::{
    exit,
    failure::{Effect, Failure},
    output::{
        lock::{holder, holders as holders_of, waiting as waiting_for},
        permits,
    },
    run::{
        target::{Granted, RunTarget},
        timing::Timing,
    },
};

/// A wait with a broken stream may exceed its limit by this, because its grant may have been lost
/// with the stream.
const RESUME_GRACE: Duration = Duration::from_secs(2);

impl Machine {
    pub(super) fn on_opened(&mut self, now: Instant, opened: Result<Duration, Error>) {
        if !matches!(self.phase, Phase::Opening { .. }) {
            return;
        }
        let lease = match opened {
            Ok(lease) => lease,
            Err(failure) => {
                let failure = Failure::from_error(&failure, Effect::Reads);
                self.say(failure.message);
                self.end(failure.exit);
                return;
            }
        };
        self.phase = Phase::Waiting { give_up_at: None };
        self.has_said_broken = false;
        self.lease = lease;
        // Refused before the wait rather than after it.
        match Timing::new(lease, self.plan.kill_after) {
            Ok(timing) => {
                self.timing = Some(timing);
                let left = self.wait_until;
                let left = left.map(|until| until.saturating_duration_since(now));
                self.actions.push(Action::Acquire(left));
            }
            Err(problem) => {
                self.say(problem);
                self.close(exit::USAGE);
            }
        }
    }

    pub(super) fn on_event(&mut self, now: Instant, event: SessionEvent) {
        match event {
            SessionEvent::Waiting { name, waiting } => {
                self.on_waiting(now, waiting_for(&name, &waiting), Some(name));
            }
            SessionEvent::WaitingForPermits { name, waiting } => {
                self.on_waiting(now, permits::waiting(&name, &waiting), None);
            }
            SessionEvent::Broken { cause } => self.on_broken(now, &cause),
            SessionEvent::Resumed => {
                self.has_said_broken = false;
                if let Phase::Waiting { give_up_at } = &mut self.phase {
                    *give_up_at = None;
                }
            }
            SessionEvent::YieldRequested(request) => self.on_yield_requested(now, &request),
            SessionEvent::AtRisk { .. } => {
                self.say(
                    "renewals are failing; if that continues, the command is stopped".to_owned(),
                );
            }
            SessionEvent::Recovered => self.say("renewals succeed again".to_owned()),
            // Operations end with the session; a later client library may have more events.
            _ => {}
        }
    }

    /// The command may end by itself, or go on.
    fn on_yield_requested(&mut self, now: Instant, request: &YieldRequest) {
        let by = match request.by.as_str() {
            "" => "a caller",
            by => by,
        };
        let left = request
            .deadline
            .saturating_duration_since(now)
            .as_secs_f64();
        let end = if request.preempts {
            "it is taken away in"
        } else {
            "within"
        };
        let (name, reason) = (&request.name, &request.reason);
        self.say(format!(
            "{by} asks for the lock {name}: {reason}; {end} {left:.0} s"
        ));
        self.is_asked_for = true;
        self.pass_request_on();
    }

    /// Signals the command, once it runs, that the lock is asked for.
    pub(super) fn pass_request_on(&mut self) {
        if matches!(self.phase, Phase::Running { .. }) && std::mem::take(&mut self.is_asked_for) {
            let signal = self.plan.on_yield.map(Action::SignalGroup);
            self.actions.extend(signal);
        }
    }

    /// Says how a wait stands, and who holds the lock if the caller may know that.
    pub(super) fn on_described(&mut self, answer: Option<&DescribeResponse>) {
        let (Phase::Waiting { .. }, Some(waited)) = (&self.phase, &self.waited) else {
            return;
        };
        let holders = answer.filter(|it| !it.holders.is_empty());
        let holders = holders.map(|it| format!("; held by {}", holders_of(it)));
        let nested = "; LOCKKEEPER_LOCK says that this command runs under that lock already";
        let nested = if self.plan.is_nested { nested } else { "" };
        self.say(format!(
            "{}{}{nested}",
            waited.message,
            holders.unwrap_or_default()
        ));
    }

    /// The session is being resumed. That must not make a wait endless.
    fn on_broken(&mut self, now: Instant, cause: &str) {
        let message = match &mut self.phase {
            Phase::Waiting { give_up_at } => {
                let patience = self.wait_until.map_or(self.lease, |until| {
                    let left = until.saturating_duration_since(now);
                    self.lease.min(left.max(RESUME_GRACE))
                });
                give_up_at.get_or_insert(now + patience);
                format!("connection lost while waiting: {cause}")
            }
            Phase::Confirming { .. } | Phase::Running { .. } => {
                let left = self.valid_until;
                let left = left.map_or(Duration::ZERO, |it| it.saturating_duration_since(now));
                format!(
                    "connection lost: {cause}; held for at least {:.1} s more, trying to resume",
                    left.as_secs_f64()
                )
            }
            _ => return,
        };
        if !self.has_said_broken {
            self.has_said_broken = true;
            self.say(message);
        }
    }

    pub(super) fn on_acquired(&mut self, now: Instant, ended: Result<Granted, Error>) {
        if !matches!(self.phase, Phase::Waiting { .. }) {
            return;
        }
        match ended {
            Ok(granted) => {
                self.granted = Some(granted);
                self.phase = Phase::Confirming {
                    until: now + self.lease,
                    again_at: None,
                };
                self.actions.push(Action::Confirm);
            }
            Err(Error::NotGranted {
                reason,
                holder_remaining_lease,
                holder_note,
                available,
                ..
            }) => {
                let remaining = holder_remaining_lease.and_then(|it| it.try_into().ok());
                let busy = match available {
                    Some(available) => format!("available={available}"),
                    None => holder(remaining.as_ref(), holder_note.as_deref()),
                };
                self.on_not_granted(reason, &busy);
            }
            // The coordinator no longer knows the session, as after a restart without a store. A
            // new session continues the wait.
            Err(Error::SessionEnded(_)) => {
                let at = Some(now + RETRY_INTERVAL);
                self.phase = Phase::Opening { at };
            }
            Err(failure) => {
                let failure = Failure::from_error(&failure, Effect::Changes);
                self.say(failure.message);
                self.close(failure.exit);
            }
        }
    }

    fn on_not_granted(&mut self, reason: NotGrantedReason, busy: &str) {
        let why = match reason {
            NotGrantedReason::WaitTimeout => match self.plan.target {
                RunTarget::Locks(_) => "held by another owner",
                RunTarget::Permits { .. } => "too few permits are free",
            },
            NotGrantedReason::Cancelled => "the wait was cancelled",
            NotGrantedReason::Deadlock | NotGrantedReason::Unspecified => "not granted",
        };
        self.say(format!("{}: {why}, {busy}", self.plan.target.names()));
        self.close(self.plan.conflict_exit_code);
    }

    pub(super) fn on_confirmed(&mut self, now: Instant, ended: Result<(), Error>) {
        let Phase::Confirming { until, .. } = self.phase else {
            return;
        };
        match ended {
            Ok(()) if self.term_at().is_some_and(|at| at > now) => {
                let granted = self.granted.take().unwrap_or_default();
                let fencing_tokens = self.plan.target.tokens(granted);
                self.phase = Phase::Starting;
                self.actions.push(Action::StartChild { fencing_tokens });
            }
            Err(failure) if failure.is_lost() => {
                let what = self.plan.target.all();
                self.stop(now, &what, "lockkeeper no longer holds it");
            }
            // Or the answer came so late that the command would be stopped at once.
            Ok(()) | Err(_) => {
                let again_at = Some(now + RETRY_INTERVAL);
                self.phase = Phase::Confirming { until, again_at };
            }
        }
    }

    pub(super) fn on_lost(&mut self, now: Instant, loss: Option<Error>) {
        let (what, why) = match loss {
            Some(Error::Lost {
                name,
                reason,
                detail,
            }) => {
                // Another command runs by now: this one gets no time to end.
                if matches!(reason, LostReason::TakenOver | LostReason::HandedOver) {
                    self.valid_until = Some(now);
                }
                (self.plan.target.one(&name), why_lost(reason, &detail))
            }
            _ => (self.plan.target.all(), "no reason given".to_owned()),
        };
        self.stop(now, &what, &why);
    }

    pub(super) fn on_closed(&mut self, ended: &Result<(), Error>) {
        let Phase::Closing { code } = self.phase else {
            return;
        };
        if ended.is_err() {
            self.say(match self.valid_until {
                Some(_) => "the grant could not be released; it ends with its lease".to_owned(),
                None => "the session could not be ended in time".to_owned(),
            });
        }
        self.end(code);
    }
}
