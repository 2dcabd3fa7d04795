//! Handing a lock on in one call: whoever gives it back offers it to the head of the line, and if
//! that can have it as it is, one script makes the release and the acquire. So the lock is free at
//! no moment, and nobody need be told.
//!
//! An offer is taken at once or withdrawn; then the release is made by itself, see
//! [`super::hand_on`].

use std::time::Duration;

use lockkeeper_store::script::{Acquired, CallError, Hold, Mode, Released, Scripts, keys};
use tokio::{sync::oneshot, task::yield_now, time::Instant};
use tracing::Span;

use crate::{
    metrics::{Heard, Source},
    types::{LockName, Owner},
    waiters::{Place, Waiter, Waiters, hand_on::EXCLUSIVE},
};

/// The last hold of a lock, which somebody is about to give back.
#[derive(Debug)]
pub(super) struct Offer {
    owner: Owner,
    serial: Option<u64>,
    handed_over: oneshot::Sender<HandedOver>,
}

/// What became of a release that the head made a call of.
#[derive(Debug)]
pub(super) struct HandedOver {
    released: Result<Released, CallError>,
    /// Dropped when whoever released knows of it: that one's part comes before the head's.
    _heard: oneshot::Sender<()>,
}

// === impl Waiters ===

impl Waiters {
    /// Waits until the head of the line here has done what it was offered. None if it did not take
    /// it, or if nothing came of it: then the release is still to be made.
    pub(super) async fn hand_over(
        &self,
        name: &LockName,
        owner: &Owner,
        handed_over: oneshot::Receiver<HandedOver>,
    ) -> Option<Result<Released, CallError>> {
        // The head has been stirred and looks before this goes on.
        yield_now().await;
        self.withdraw(name, owner);
        let released = handed_over.await.ok()?.released;
        if let Err(CallError::OutcomeUnknown(_)) = released {
            self.hint(&keys::channel(name.as_str()));
        }
        Some(released)
    }

    /// None if the head would not take it, or if it is the turn of others.
    pub(super) fn offer(
        &self,
        name: &LockName,
        owner: &Owner,
        serial: Option<u64>,
    ) -> Option<oneshot::Receiver<HandedOver>> {
        let mut state = self.state.lock();
        let channel = state.channel_of(name)?;
        let line = channel.lines.get(&EXCLUSIVE)?;
        let (_, head) = line.waiters.first_key_value()?;
        let own_releases = &mut channel.own_releases;
        if line.trying || !head.takes_offers() || !own_releases.may_be_offered() {
            return None;
        }
        let (handed_over, heard_of) = oneshot::channel();
        own_releases.offer = Some(Offer {
            owner: owner.clone(),
            serial,
            handed_over,
        });
        self.metrics.woken(Source::Local);
        channel.released = Some((Instant::now(), Heard::Local, Span::current()));
        channel.wake();
        Some(heard_of)
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
    /// Takes the lock that is offered to this waiter, the head of its line: what an acquire with
    /// this lease came to. None if nothing is offered, or nothing came of it: then the acquire is
    /// still to be made.
    pub(crate) async fn take_over(
        &self,
        scripts: &Scripts,
        lease: Duration,
    ) -> Option<Result<Acquired, CallError>> {
        let Offer {
            owner,
            serial,
            handed_over,
        } = self.offered()?;
        let Waiter {
            name, owner: next, ..
        } = &*self.waiter;
        let hold = Hold::new(name.as_str(), Mode::Exclusive, owner.field());
        let handed_on = scripts.hand_on(hold, serial, next.field(), lease).await;
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
                    lease,
                    serial: token,
                    repeated: false,
                };
                (Ok(released), Ok(granted))
            }
            Err(error) if error.is_transient() => (Err(error.clone()), Err(error)),
            // What is wrong each of the two finds out for itself.
            Ok(None) | Err(_) => return None,
        };
        let (heard, is_heard) = oneshot::channel();
        let _ = handed_over.send(HandedOver {
            released,
            _heard: heard,
        });
        let _ = is_heard.await;
        Some(acquired)
    }

    fn offered(&self) -> Option<Offer> {
        let mut state = self.waiters.state.lock();
        let channel = state.channels.get_mut(&self.channel)?;
        channel.own_releases.take_offer()
    }
}
