//! Handing a lock on in one call: whoever gives it back offers it to the head of the line, and if that can have it as it is, one script makes the release
//! and the acquire. So the lock is free at no moment, and nobody need be told.
//!
//! An offer is taken at once or withdrawn; then the release is made by itself, see [`super::hand_on`].

use std::time::Duration;

use tokio::{sync::oneshot, task::yield_now, time::Instant};
use tracing::Span;

use super::{Place, Waiters, hand_on::EXCLUSIVE};
use crate::{
    coordinator::{
        metrics::{Heard, Source},
        types::{LockName, Owner},
    },
    script::{Acquired, CallError, Hold, Mode, Released, Scripts, keys},
};

/// The last hold of a lock, which somebody is about to give back.
#[derive(Debug)]
pub(super) struct Offer {
    owner: Owner,
    bids: oneshot::Sender<Bid>,
}

/// What the head of a line makes of an offer.
#[derive(Debug)]
pub(super) struct Bid {
    owner: Owner,
    lease: Duration,
    /// Wait for the replicas that the head wants.
    scripts: Scripts,
    /// None if nothing changed.
    answer: oneshot::Sender<Option<Result<Acquired, CallError>>>,
}

// === impl Waiters ===

impl Waiters {
    /// Gives the last hold of an exclusive lock to the head of the line here, to which it has been offered. None if that did not take it, or if nothing came
    /// of it: then the release is still to be made.
    pub(super) async fn hand_over(
        &self,
        name: &LockName,
        owner: &Owner,
        serial: Option<u64>,
        bids: oneshot::Receiver<Bid>,
    ) -> Option<Result<Released, CallError>> {
        // The head has been stirred and looks before this goes on.
        yield_now().await;
        self.withdraw(name, owner);
        let bid = bids.await.ok()?;
        let hold = Hold::new(name.as_str(), Mode::Exclusive, owner.field());
        let next = bid.owner.field();
        let handed_on = bid.scripts.hand_on(hold, serial, next, bid.lease).await;
        let (released, acquired) = match handed_on {
            Ok(Some(token)) => {
                let released = Released::Done {
                    hold_count: 0,
                    held: 0,
                    lease: Duration::ZERO,
                };
                let granted = Acquired::Granted {
                    hold_count: 1,
                    token,
                    lease: bid.lease,
                    serial: token,
                    repeated: false,
                };
                (Some(Ok(released)), Some(Ok(granted)))
            }
            Err(error) if error.is_transient() => (Some(Err(error.clone())), Some(Err(error))),
            // What is wrong each of the two finds out for itself.
            Ok(None) | Err(_) => (None, None),
        };
        let _ = bid.answer.send(acquired);
        if let Some(Err(CallError::OutcomeUnknown(_))) = released {
            self.hint(&keys::channel(name.as_str()));
        }
        released
    }

    /// None if the head would not take it, or if it is the turn of others.
    pub(super) fn offer(&self, name: &LockName, owner: &Owner) -> Option<oneshot::Receiver<Bid>> {
        let mut state = self.state.lock();
        let channel = state.channel_of(name)?;
        let line = channel.lines.get(&EXCLUSIVE)?;
        let (_, head) = line.waiters.first_key_value()?;
        let own_releases = &mut channel.own_releases;
        if line.trying || !head.takes_offers() || !own_releases.may_be_offered() {
            return None;
        }
        let (bids, bid) = oneshot::channel();
        let owner = owner.clone();
        own_releases.offer = Some(Offer { owner, bids });
        self.metrics.woken(Source::Local);
        channel.released = Some((Instant::now(), Heard::Local, Span::current()));
        channel.wake();
        Some(bid)
    }

    /// Takes an offer back that nobody has taken.
    fn withdraw(&self, name: &LockName, owner: &Owner) {
        let mut state = self.state.lock();
        if let Some(channel) = state.channel_of(name) {
            let offer = &mut channel.own_releases.offer;
            offer.take_if(|offer| offer.owner == *owner);
        }
    }
}

// === impl Place ===

impl Place {
    /// Takes the lock that is offered to this waiter, the head of its line: what an acquire with this lease came to. None if nothing is offered, or nothing came
    /// of it: then the acquire is still to be made.
    pub(crate) async fn take_over(
        &self,
        scripts: &Scripts,
        lease: Duration,
    ) -> Option<Result<Acquired, CallError>> {
        let offer = self.offered()?;
        let (answer, answered) = oneshot::channel();
        let bid = Bid {
            owner: self.waiter.owner.clone(),
            lease,
            scripts: scripts.clone(),
            answer,
        };
        offer.bids.send(bid).ok()?;
        answered.await.unwrap_or_else(|_| {
            let why = "the release did not come to its end".to_owned();
            Some(Err(CallError::OutcomeUnknown(why)))
        })
    }

    fn offered(&self) -> Option<Offer> {
        let mut state = self.waiters.state.lock();
        let channel = state.channels.get_mut(&self.channel)?;
        channel.own_releases.take_offer()
    }
}
