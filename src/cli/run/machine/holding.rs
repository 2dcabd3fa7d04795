//! Keeping the grant, knowing until when it is valid, and stopping the command in time.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::{Action, Exited, Held, LinkState, Machine, Phase};
use crate::{
    cli::{exit, failure::Failure},
    grpc::pb::{Grant, RenewRequest, session_request::Request},
};

/// Between two attempts to renew, when the store fails.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

impl Machine {
    /// The coordinator's watchdog renews as well; these renewals are for knowing until when, whatever happens to the coordinator.
    pub(super) fn renew_if_due(&mut self, now: Instant) {
        if self.renewal_due_at().is_none_or(|at| at > now) {
            return;
        }
        let op_id = self.next_op_id();
        let Some(held) = &mut self.held else {
            return;
        };
        held.renewing = Some((op_id, now));
        let request = RenewRequest {
            name: held.grant.name.clone(),
            owner: held.grant.owner.clone(),
            mode: held.grant.mode,
            ..RenewRequest::default()
        };
        self.send(op_id, Request::Renew(request));
    }

    /// `None` while a renewal cannot or need not be sent.
    pub(super) fn renewal_due_at(&self) -> Option<Instant> {
        let is_up = matches!(self.link, LinkState::Up);
        let is_wanted = matches!(self.phase, Phase::Confirming { .. } | Phase::Running);
        let held = self
            .held
            .as_ref()
            .filter(|held| is_up && is_wanted && held.renewing.is_none());
        held.map(|held| held.renew_at)
    }

    pub(super) fn is_valid(&self, now: Instant) -> bool {
        let validity = self.held.as_ref().and_then(|held| held.validity);
        validity.is_some_and(|validity| validity.until > now)
    }

    pub(super) fn term_at(&self) -> Option<Instant> {
        self.held
            .as_ref()
            .and_then(|held| held.validity)
            .map(|validity| validity.term_at)
    }

    pub(super) fn on_renewed(&mut self, now: Instant, op_id: u64, grant: Option<Grant>) {
        if let Some(sent_at) = self.take_renewal(op_id)
            && let Some(grant) = grant
        {
            self.on_renewed_since(now, sent_at, &grant);
        }
    }

    /// The grant was renewed after `sent_at`.
    pub(super) fn on_renewed_since(&mut self, now: Instant, sent_at: Instant, grant: &Grant) {
        let Some(held) = &mut self.held else {
            return;
        };
        let valid_for = grant
            .valid_for
            .and_then(|it| it.try_into().ok())
            .unwrap_or_default();
        let validity = held.timing.validity(sent_at, valid_for);
        // Answers to a renewal and to a resume may overtake each other.
        if held
            .validity
            .is_none_or(|known| known.until < validity.until)
        {
            held.validity = Some(validity);
        }
        held.renew_at = sent_at + held.timing.renew_interval();
        if let Phase::Confirming { .. } = self.phase {
            self.confirm(now);
        }
    }

    fn confirm(&mut self, now: Instant) {
        let Some(held) = &mut self.held else {
            return;
        };
        if held.validity.is_some_and(|validity| validity.term_at > now) {
            let fencing_token = held.grant.fencing_token;
            self.phase = Phase::Starting;
            self.actions.push(Action::StartChild { fencing_token });
        } else {
            // The answer came so late that the command would have to be stopped at once.
            held.renew_at = now + RETRY_INTERVAL;
        }
    }

    pub(super) fn on_renewal_failed(&mut self, now: Instant, op_id: u64, failure: &Failure) {
        if self.take_renewal(op_id).is_none() {
            return;
        }
        if failure.reason == "NOT_OWNER" {
            self.stop(now, "it is not ours any more");
        } else if let Some(Held {
            renew_at, timing, ..
        }) = &mut self.held
        {
            // Only time decides: neither a store that is down nor a coordinator that refuses to renew has taken the lock away.
            *renew_at = now + RETRY_INTERVAL.min(timing.renew_interval());
        }
    }

    fn take_renewal(&mut self, op_id: u64) -> Option<Instant> {
        let held = self.held.as_mut()?;
        let (_, sent_at) = held.renewing.take_if(|(ours, _)| *ours == op_id)?;
        Some(sent_at)
    }

    /// The lock is lost, or will be before it can be renewed.
    pub(super) fn stop(&mut self, now: Instant, why: &str) {
        let name = &self.plan.name;
        match self.phase {
            Phase::Running => {
                let message = format!("lost the lock {name}: {why}; stopping the command");
                let kill_at = self.held.as_ref().map_or(now, |held| {
                    let kill_at = held.timing.kill_at(now);
                    held.validity
                        .map_or(kill_at, |validity| validity.kill_at.min(kill_at))
                });
                self.phase = Phase::Stopping {
                    kill_at: Some(kill_at),
                    exit: Exited::NotYet,
                };
                self.actions.push(Action::SignalGroup(Signal::SIGTERM));
                // A process that is stopped would take note of TERM only when it goes on.
                self.actions.push(Action::SignalGroup(Signal::SIGCONT));
                self.say(message);
            }
            Phase::Confirming { .. } | Phase::Starting => {
                self.say(format!(
                    "lost the lock {name}: {why}; the command was not started"
                ));
                self.close(now, exit::LOST);
            }
            _ => {}
        }
    }
}
