//! Keeping the grant, knowing until when it is valid, and stopping the command in time.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::{
    Action, Exited, LinkState, Machine, Phase, Thing, Validity,
    held::{Held, Item},
};
use crate::cli::{exit, failure::Failure};

/// Between two attempts to renew, when the store fails.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

impl Machine {
    /// The coordinator's watchdog renews as well; these renewals are for knowing until when, whatever happens to the coordinator.
    pub(super) fn renew_if_due(&mut self, now: Instant) {
        while self.renewal_due_at().is_some_and(|at| at <= now) {
            let op_id = self.next_op_id();
            let Some(held) = &mut self.held else {
                return;
            };
            let due = |item: &&mut Item| item.renewing.is_none() && item.renew_at <= now;
            let Some(item) = held.items.iter_mut().find(due) else {
                return;
            };
            item.renewing = Some((op_id, now));
            let renewal = item.thing.renewal(None);
            self.send(op_id, renewal);
        }
    }

    /// `None` while a renewal cannot or need not be sent.
    pub(super) fn renewal_due_at(&self) -> Option<Instant> {
        let is_up = matches!(self.link, LinkState::Up);
        let is_wanted = matches!(self.phase, Phase::Confirming { .. } | Phase::Running);
        let held = self.held.as_ref().filter(|_| is_up && is_wanted);
        held.and_then(Held::renew_at)
    }

    pub(super) fn is_valid(&self, now: Instant) -> bool {
        self.validity().is_some_and(|validity| validity.until > now)
    }

    pub(super) fn term_at(&self) -> Option<Instant> {
        self.validity().map(|validity| validity.term_at)
    }

    pub(super) fn validity(&self) -> Option<Validity> {
        self.held.as_ref().and_then(Held::validity)
    }

    pub(super) fn on_renewed(&mut self, now: Instant, op_id: u64, thing: Option<Thing>) {
        let Some(held) = &mut self.held else {
            return;
        };
        let timing = held.timing;
        if let Some((item, sent_at)) = held.take_renewal(op_id)
            && let Some(thing) = thing
        {
            item.renewed(&timing, sent_at, &thing);
            self.confirm(now);
        }
    }

    /// A resume that began at `sent_at` has renewed what it answers. False if something of what is held is not among that.
    pub(super) fn on_resumed(&mut self, now: Instant, sent_at: Instant, things: &[Thing]) -> bool {
        let Some(held) = &mut self.held else {
            return true;
        };
        for item in &mut held.items {
            let Some(thing) = things.iter().find(|thing| item.thing.is(thing)) else {
                return false;
            };
            item.renewed(&held.timing, sent_at, thing);
        }
        self.confirm(now);
        true
    }

    fn confirm(&mut self, now: Instant) {
        let Some(held) = &mut self.held else {
            return;
        };
        if !matches!(self.phase, Phase::Confirming { .. }) {
            return;
        }
        match held.validity() {
            None => {}
            Some(validity) if validity.term_at > now => {
                let things = held.items.iter().map(|item| &item.thing);
                let fencing_tokens = self.plan.wish.tokens(things);
                self.phase = Phase::Starting;
                self.actions.push(Action::StartChild { fencing_tokens });
            }
            // An answer came so late that the command would have to be stopped at once.
            Some(_) => {
                let late = |item: &&mut Item| item.validity.is_none_or(|it| it.term_at <= now);
                for item in held.items.iter_mut().filter(late) {
                    item.renew_at = now + RETRY_INTERVAL;
                }
            }
        }
    }

    pub(super) fn on_renewal_failed(&mut self, now: Instant, op_id: u64, failure: &Failure) {
        let Some(held) = &mut self.held else {
            return;
        };
        let pause = RETRY_INTERVAL.min(held.timing.renew_interval());
        let Some((item, _)) = held.take_renewal(op_id) else {
            return;
        };
        if failure.reason == "NOT_OWNER" {
            let what = item.thing.words();
            self.stop(now, &what, "it is not ours any more");
        } else {
            // Only time decides: neither a store that is down nor a coordinator that refuses to renew has taken the lock away.
            item.renew_at = now + pause;
        }
    }

    /// Something that is held is lost, or will be before it can be renewed.
    pub(super) fn stop(&mut self, now: Instant, what: &str, why: &str) {
        match self.phase {
            Phase::Running => {
                let message = format!("lost {what}: {why}; stopping the command");
                let kill_at = self.held.as_ref().map_or(now, |held| {
                    let kill_at = held.timing.kill_at(now);
                    held.validity()
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
                self.say(format!("lost {what}: {why}; the command was not started"));
                self.close(now, exit::LOST);
            }
            _ => {}
        }
    }
}
