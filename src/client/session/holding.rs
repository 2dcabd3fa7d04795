//! From the grant to its end: handing a guard over, knowing until when it is valid, and giving
//! back.

use std::sync::Arc;

use lockkeeper_api::pb::{LostReason, session_response::Response};
use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    book::{Entry, Unconfirmed, release_of},
    command::{Answer, ended_already},
    driver::{Driver, Release, Timer},
    operation::{Operation, Purpose, with_request_id},
};
use crate::{
    Error, Thing,
    guard::{Held, Loss},
};

/// A little before the coordinator's watchdog would: it counts from the last renewal, whoever asked
/// for that, and so has nothing to do as long as this client has. Only the answer to a request
/// tells until when a grant is valid, because only of that is it known how old it can be.
fn renew_at(sent_at: Instant, thing: &Thing) -> Instant {
    sent_at + thing.lease() * 3 / 10
}

impl Driver {
    /// Something is held now. How long the answer was under way is not known, only when it was
    /// asked for: after a long wait a renewal has to tell until when it is valid.
    pub(super) fn on_taken(&mut self, now: Instant, operation: Operation, things: Vec<Thing>) {
        let release = release_of(&things);
        let Some(answer) = operation.answer else {
            let op_id = self.next_id();
            let release = Operation::new(with_request_id(release), Purpose::Release(0));
            self.add(now, op_id, release);
            return;
        };
        let sent_at = operation.sent_at.unwrap_or(now);
        let guard = self.next_id();
        let mut holdings = Vec::with_capacity(things.len());
        let mut stale = Vec::new();
        for thing in &things {
            let until = sent_at + thing.valid_for();
            let is_stale = now + thing.valid_for().mul_f64(2.0 / 3.0) > until;
            let renew_at = renew_at(sent_at, thing).max(now);
            let id = self.next_id();
            let id = self.book.add(guard, id, thing.clone(), until.max(now));
            holdings.push(id);
            if let Some(holding) = self.book.holdings.get_mut(&id) {
                holding.renew_at = thing.is_watched().then_some(renew_at);
                if is_stale {
                    stale.push(id);
                    holding.renew_at = Some(now);
                    // Until it is confirmed there is nothing to rely on, and nobody who does.
                    holding.known.set_valid_until(now + thing.lease());
                }
            }
        }
        let entry = Entry {
            holdings: holdings.clone(),
            lost: CancellationToken::new(),
            release,
            unconfirmed: None,
        };
        self.book.guards.insert(guard, entry);
        if stale.is_empty() {
            self.deliver(guard, answer, things);
        } else if let Some(entry) = self.book.guards.get_mut(&guard) {
            entry.unconfirmed = Some(Unconfirmed {
                answer,
                things,
                left: stale,
            });
        }
        for id in holdings {
            self.look_after(now, id);
        }
    }

    /// Hands a guard to its user. If nobody takes it, its end gives it back.
    fn deliver(
        &mut self,
        guard: u64,
        answer: oneshot::Sender<Result<Answer, Error>>,
        things: Vec<Thing>,
    ) {
        let (Some(commands), Some(entry)) = (self.handle(), self.book.guards.get(&guard)) else {
            return;
        };
        let known = entry.holdings.iter();
        let known = known.filter_map(|id| self.book.holdings.get(id));
        let held = Held {
            commands,
            id: guard,
            known: known.map(|it| Arc::clone(&it.known)).collect(),
            lost: entry.lost.clone(),
            is_over: false,
        };
        let _ = answer.send(Ok(Answer::Held(held, things)));
    }

    /// A renewal that was sent then says until when it is valid.
    pub(super) fn renewed(&mut self, now: Instant, id: u64, sent_at: Instant, thing: Thing) {
        let Some(holding) = self.book.holdings.get_mut(&id) else {
            return;
        };
        let until = sent_at + thing.valid_for();
        let is_confirmed = until > now;
        let waits = holding.guards.iter().any(|guard| {
            let entry = self.book.guards.get(guard);
            entry.is_some_and(|it| it.unconfirmed.is_some())
        });
        // Answers to a renewal and to a resume may overtake each other.
        if is_confirmed && (waits || holding.known.valid_until() < until) {
            holding.known.set_valid_until(until);
        }
        holding.renew_at = thing
            .is_watched()
            .then(|| renew_at(sent_at, &thing).max(now));
        holding.thing = thing;
        let guards = holding.guards.clone();
        if is_confirmed {
            for guard in guards {
                self.confirm(guard, id);
            }
        }
        self.timers.insert((now, Timer::Holding(id)));
    }

    fn confirm(&mut self, guard: u64, holding: u64) {
        let Some(entry) = self.book.guards.get_mut(&guard) else {
            return;
        };
        let Some(mut unconfirmed) = entry.unconfirmed.take() else {
            return;
        };
        unconfirmed.left.retain(|id| *id != holding);
        if unconfirmed.left.is_empty() {
            self.deliver(guard, unconfirmed.answer, unconfirmed.things);
        } else {
            entry.unconfirmed = Some(unconfirmed);
        }
    }

    /// Renews what is due, and knows when it is too late.
    pub(super) fn look_after(&mut self, now: Instant, id: u64) {
        let is_up = self.is_up();
        let op_id = self.next_id();
        let Some(holding) = self.book.holdings.get_mut(&id) else {
            return;
        };
        if holding.guards.is_empty() {
            return;
        }
        let valid_until = holding.known.valid_until();
        if valid_until <= now {
            self.lose(id, &Loss::new(LostReason::Expired));
            return;
        }
        self.timers.insert((valid_until, Timer::Holding(id)));
        let (None, Some(renew_at), true) = (holding.renewal, holding.renew_at, is_up) else {
            return;
        };
        if renew_at > now {
            self.timers.insert((renew_at, Timer::Holding(id)));
            return;
        }
        holding.renewal = Some(op_id);
        let renewal = Operation::new(holding.thing.renewal(None), Purpose::Renewal(id));
        self.add(now, op_id, renewal);
    }

    /// Its guards are told. One that nobody has yet is no guard, but a failure.
    pub(super) fn lose(&mut self, id: u64, loss: &Loss) {
        for guard in self.book.lose(id, loss) {
            let Some(entry) = self.book.guards.get_mut(&guard) else {
                continue;
            };
            if let Some(unconfirmed) = entry.unconfirmed.take() {
                let name = unconfirmed.things.first().map(Thing::name);
                let failure = loss.clone().of(name.unwrap_or_default());
                let _ = unconfirmed.answer.send(Err(failure));
                // Of several locks the others are still held.
                self.release(Instant::now(), guard, None);
            }
        }
    }

    /// Gives back what a guard has, even if it is lost: a coordinator that could not be reached may
    /// still hold it for this session.
    pub(super) fn release(
        &mut self,
        now: Instant,
        guard: u64,
        answer: Option<oneshot::Sender<Result<(), Error>>>,
    ) {
        let Some(entry) = self.book.guards.remove(&guard) else {
            if let Some(answer) = answer {
                let _ = answer.send(Err(ended_already()));
            }
            return;
        };
        for id in &entry.holdings {
            if let Some(holding) = self.book.holdings.get_mut(id) {
                holding.guards.retain(|it| *it != guard);
            }
        }
        let op_id = self.next_id();
        let operation = Operation::new(with_request_id(entry.release), Purpose::Release(guard));
        self.releases.insert(
            guard,
            Release {
                holdings: entry.holdings,
                answer,
            },
        );
        self.add(now, op_id, operation);
    }

    pub(super) fn on_released(&mut self, guard: u64, ended: Result<Response, Error>) {
        let Some(release) = self.releases.remove(&guard) else {
            return;
        };
        for id in release.holdings {
            let holding = self.book.holdings.get(&id);
            if holding.is_some_and(|it| it.guards.is_empty()) {
                self.book.remove(id);
            }
        }
        if let Some(answer) = release.answer {
            let _ = answer.send(ended.map(drop));
        }
    }
}
