//! Hands a lock on to the next waiter of the same coordinator. If the head of the line accepts the
//! offer at once, the release and its acquire become one call, `lock_hand_on.lua`. Otherwise the
//! head of an exclusive lock tries right behind the release, and the release's own message is
//! skipped.
//!
//! ```text
//! holder releases
//!       |
//!       v
//! offer to the head of the line
//!       |
//!       +-- accepted ------> lock_hand_on.lua: one script, both answered
//!       |
//!       +-- not accepted --> release sent, head tries at once, message skipped
//!
//! after 16 in a row or 5 ms: the release is published for others
//! ```
//!
//! In one call the lock is free at no moment, and no message is needed. The head accepts at once,
//! or the offer is withdrawn. After 5 ms nothing is offered. After 16 in a row the head does not
//! try early either, and the message is followed; see [`super::own_releases`].
//!
//! In two calls both reach the store at the same time, so the lock changes hands in one round trip.
//! The release acts as an early hint: the attempt may still precede it. So the hint is repeated
//! when the release is over, unless the lock was granted meanwhile.
//!
//! Messages of one channel arrive in order. If another release's message is skipped by mistake,
//! that release was earlier, and an attempt follows both.
//!
//! The waiters of a fair lock have a channel each, and the store knows which of them is the first,
//! so nobody starves. If the waiter that came first here is not the first of all, the release wakes
//! that one as usual, and the next releases are not offered.
//!
//! A write lock is offered to the next writer, in one call or not at all, by a writer
//! (`lock_hand_on.lua`) or by the last reader (`read_hand_on.lua`). If a reader here came before
//! that writer, the release wakes all. The store knows how many others read; of their releases only
//! the last one is offered.

use std::{
    future::{Future, poll_fn},
    sync::Arc,
    time::Duration,
};

use futures::FutureExt as _;
use lockkeeper_store::script::{
    Acquired, Attempt, CallError, HandOver, Mode, Released, Scripts, keys,
};
use tokio::{sync::oneshot, task::yield_now, time::Instant};
use tracing::Span;

use crate::{
    metrics::labels::{Heard, Source},
    types::{Goal, HolderKnown, LockName, Owner, hold_of},
    waiters::{
        line::{Subscription, Waiter},
        own_releases::{HandedOver, Offer},
        queue::{QueueTicket, State, Waiters, channel},
    },
};

/// An exclusive lock with waiters here.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    /// What is known of the holder, as last heard.
    pub(crate) holder: HolderKnown,
}

/// A release in progress that was handed on: the line's count of grants before it, and when it was
/// sent.
struct SentRelease(u64, Instant);

/// An offer to the head of a line.
pub(crate) struct Offered {
    channel: Arc<str>,
    handed_over: oneshot::Receiver<HandedOver>,
}

/// The last hold of an owner on a lock, which it gives back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastHold<'a> {
    pub(crate) name: &'a LockName,
    pub(crate) mode: Mode,
    pub(crate) owner: &'a Owner,
    /// The field that names the grant, if one does.
    pub(crate) field: Option<&'a Arc<str>>,
    /// The serial of the grant, if it is known.
    pub(crate) serial: Option<u64>,
}

/// Releases of a fair lock that are not offered after a waiter elsewhere was first.
const NOT_OFFERED: u32 = 16;

pub(crate) const EXCLUSIVE: Goal = Goal::Lock(Mode::Exclusive);
const FAIR: Goal = Goal::Lock(Mode::Fair);
const READ: Goal = Goal::Lock(Mode::Read);
const WRITE: Goal = Goal::Lock(Mode::Write);

// === impl Waiters ===

impl Waiters {
    /// Passes the last hold of a lock to the next waiter here:
    ///
    /// - an exclusive lock to the head of the line;
    /// - a fair lock to the waiter that came first here, if nobody in the queue is before it;
    /// - a write lock, or the lock of the last reader, to the next writer, if no reader here came
    ///   before it.
    ///
    /// `in_one_call` permits the joint call; it is false if replicas must acknowledge the release.
    /// Otherwise `release` runs, and the next acquire of an exclusive lock follows right behind it.
    pub(crate) async fn hand_over<F>(
        &self,
        last: LastHold<'_>,
        in_one_call: bool,
        release: F,
    ) -> F::Output
    where
        F: Future<Output = Result<Released, CallError>> + Unpin,
    {
        // Boxed, so that a release without waiters does not carry it.
        if in_one_call
            && let Some(offered) = self.offer(last)
            && let Some(released) = Box::pin(self.hand_over_in_one_call(last.owner, offered)).await
        {
            return released;
        }
        if last.mode == Mode::Exclusive {
            return self.followed(last.name, release).await;
        }
        let released = release.await;
        self.release_announced((last.name, last.mode), &released);
        released
    }

    /// Releases an exclusive lock, with the acquire of the next waiter right behind it.
    async fn followed<F>(&self, name: &LockName, mut release: F) -> F::Output
    where
        F: Future<Output = Result<Released, CallError>> + Unpin,
    {
        let mut sent = None;
        let released = poll_fn(|cx| {
            let released = release.poll_unpin(cx);
            if released.is_pending() {
                // The first poll sends it, so the next acquire comes after it.
                sent.get_or_insert_with(|| self.release_sent(name));
            }
            released
        });
        let released = released.await;
        match sent {
            None => self.release_announced((name, Mode::Exclusive), &released),
            Some(None) => {}
            Some(Some(sent)) => self.release_ended(name, &sent, &released),
        }
        released
    }

    /// What the waiters here for an exclusive lock know; none if there are none.
    pub(crate) fn awaited(&self, name: &LockName) -> Option<Awaited> {
        let mut state = self.state.lock();
        let channel = state.channel_of(name)?;
        let line = channel.lines.get(&EXCLUSIVE)?;
        let holder = line.holder.clone();
        Some(Awaited { holder })
    }

    /// A release has run. If the lock became free, its message reaches the waiters here and
    /// elsewhere.
    fn release_announced(
        &self,
        (name, mode): (&LockName, Mode),
        released: &Result<Released, CallError>,
    ) {
        let channel_of = match mode {
            Mode::Exclusive => keys::channel,
            Mode::Write => keys::rw_channel,
            // No offer of theirs is ever the turn of others.
            Mode::Fair | Mode::Read => return,
        };
        let mut state = self.state.lock();
        if state.channels.is_empty() || !matches!(released, Ok(Released::Done { held: 0, .. })) {
            return;
        }
        let channel = channel_of(name.store_key());
        if let Some(channel) = state.channels.get_mut(channel.as_str()) {
            channel.own_releases.turn_of_others();
        }
    }

    /// None if nobody waits here, or if others are due.
    fn release_sent(&self, name: &LockName) -> Option<SentRelease> {
        let mut state = self.state.lock();
        let channel = state.channel_of(name)?;
        let granted = channel.lines.get(&EXCLUSIVE)?.granted;
        // Before that, messages are missed.
        let is_heard = channel.subscription == Subscription::Done;
        if !channel.own_releases.sent(is_heard) {
            return None;
        }
        let sent_at = Instant::now();
        self.metrics.woken(Source::Local);
        channel.released = Some((sent_at, Heard::Local, Span::current()));
        channel.wake();
        Some(SentRelease(granted, sent_at))
    }

    fn release_ended(
        &self,
        name: &LockName,
        sent: &SentRelease,
        released: &Result<Released, CallError>,
    ) {
        let mut state = self.state.lock();
        let Some(channel) = state.channel_of(name) else {
            return;
        };
        match released {
            Ok(Released::Done { held: 0, .. }) => {}
            Ok(_) | Err(CallError::Unavailable(_)) => return channel.own_releases.unsent(),
            // Whether a message will arrive is unknown.
            Err(_) => channel.own_releases.forget(),
        }
        let Some(line) = channel.lines.get_mut(&EXCLUSIVE) else {
            return;
        };
        if line.granted != sent.0 || line.hint {
            return;
        }
        channel.released = Some((sent.1, Heard::Local, Span::current()));
        if line.trying {
            line.hint_unless_granted = true;
        } else {
            channel.wake();
        }
    }

    /// Waits until the head of the line has made the offered call. None if it did not accept, or if
    /// nothing came of it: then the release is still to be made.
    pub(crate) async fn hand_over_in_one_call(
        &self,
        owner: &Owner,
        offered: Offered,
    ) -> Option<Result<Released, CallError>> {
        // The head has been woken and looks before this continues.
        yield_now().await;
        let channel = &offered.channel;
        self.withdraw(channel, owner);
        let released = offered.handed_over.await.ok()?.released;
        if let Err(CallError::OutcomeUnknown(_)) = released {
            self.hint(channel);
        }
        Some(released)
    }

    /// None if the next waiter here would not accept, or if others are due.
    pub(crate) fn offer(&self, last: LastHold<'_>) -> Option<Offered> {
        let mut state = self.state.lock();
        if state.channels.is_empty() {
            return None;
        }
        match last.mode {
            Mode::Exclusive => {
                let channel = keys::channel(last.name.store_key());
                self.offer_on(&mut state, &channel, EXCLUSIVE, last)
            }
            Mode::Fair => self.offer_fair(&mut state, last),
            Mode::Read | Mode::Write => self.offer_write(&mut state, last),
        }
    }

    /// Offers a fair lock to the waiter that came first here.
    fn offer_fair(&self, state: &mut State, last: LastHold<'_>) -> Option<Offered> {
        let fair = state.fair.get_mut(last.name)?;
        if let Some(left) = fair.not_offered.checked_sub(1) {
            fair.not_offered = left;
            return None;
        }
        let (_, head) = fair.waiters.first_key_value()?;
        let channel = channel(last.name, head.goal, &head.owner);
        self.offer_on(state, &channel, FAIR, last)
    }

    /// Offers a write lock, or that of a reader who may be the last, to the head of the writers,
    /// unless a reader came before it.
    fn offer_write(&self, state: &mut State, last: LastHold<'_>) -> Option<Offered> {
        let name = keys::rw_channel(last.name.store_key());
        let channel = state.channels.get_mut(name.as_str())?;
        let first = |goal| channel.lines.get(&goal)?.waiters.first_key_value();
        let (writer, _) = first(WRITE)?;
        if first(READ).is_some_and(|(reader, _)| reader < writer) {
            return None;
        }
        let others_read = &mut channel.others_read;
        if last.mode == Mode::Read && *others_read > 0 {
            *others_read -= 1;
            return None;
        }
        self.offer_on(state, &name, WRITE, last)
    }

    fn offer_on(
        &self,
        state: &mut State,
        channel: &str,
        goal: Goal,
        last: LastHold<'_>,
    ) -> Option<Offered> {
        let (name, _) = state.channels.get_key_value(channel)?;
        let name = Arc::clone(name);
        let channel = state.channels.get_mut(&name)?;
        let line = channel.lines.get_mut(&goal)?;
        let (_, head) = line.waiters.first_key_value()?;
        let own_releases = &mut channel.own_releases;
        if line.trying || !head.takes_offers() || !own_releases.may_be_offered() {
            return None;
        }
        let (sent, handed_over) = oneshot::channel();
        own_releases.offer = Some(Offer {
            to: goal,
            mode: last.mode,
            owner: last.owner.clone(),
            field: last.field.map(Arc::clone),
            serial: last.serial,
            handed_over: sent,
        });
        self.metrics.woken(Source::Local);
        channel.released = Some((Instant::now(), Heard::Local, Span::current()));
        line.wake();
        Some(Offered {
            channel: name,
            handed_over,
        })
    }

    /// Another waiter of a fair lock comes before those here.
    fn others_come_first(&self, name: &LockName) {
        if let Some(fair) = self.state.lock().fair.get_mut(name) {
            fair.not_offered = NOT_OFFERED;
        }
    }

    /// So many others read the lock that was offered to a writer, and the last is offered again.
    fn others_read(&self, channel: &str, others: u32) {
        if let Some(channel) = self.state.lock().channels.get_mut(channel) {
            channel.others_read = others.saturating_sub(1);
        }
    }

    /// Withdraws an offer that was not accepted.
    fn withdraw(&self, channel: &str, owner: &Owner) {
        if let Some(channel) = self.state.lock().channels.get_mut(channel) {
            let offer = &mut channel.own_releases.offer;
            offer.take_if(|offer| offer.owner == *owner);
        }
    }
}

// === impl QueueTicket ===

impl QueueTicket {
    /// Accepts the lock offered to this waiter, the head of its line, and returns the outcome of an
    /// acquire with this lease, by the field that names the new grant if one does. None if there is
    /// no offer, or nothing came of it: then the acquire is still to be made.
    pub(crate) async fn take_over(
        &self,
        scripts: &Scripts,
        next_field: Option<&str>,
        lease: Duration,
        attempt: &Attempt<'_>,
    ) -> Option<Result<Acquired, CallError>> {
        let Offer {
            mode,
            owner,
            field,
            serial,
            handed_over,
            ..
        } = self.offered()?;
        let Waiter {
            name, owner: next, ..
        } = &*self.waiter;
        let hold = hold_of(name, mode, &owner, field.as_deref());
        let next = next_field.unwrap_or_else(|| next.field());
        let outcome = scripts
            .hand_over(hold, serial, (next, lease), attempt)
            .await;
        let (released, acquired) = match outcome {
            Ok(HandOver::Done(token)) => {
                let released = Released::Done {
                    hold_count: 0,
                    held: 0,
                    lease: Duration::ZERO,
                };
                (Ok(released), Ok(Acquired::first(token, lease)))
            }
            Ok(HandOver::NotFirst) => {
                self.waiters.others_come_first(name);
                return Some(Ok(Acquired::nothing_known()));
            }
            Ok(HandOver::OthersRead(others)) => {
                self.waiters.others_read(&self.channel, others);
                return Some(Ok(Acquired::nothing_known()));
            }
            Err(error) if error.is_transient() => (Err(error.clone()), Err(error)),
            // Each of the two calls finds out by itself what is wrong.
            Ok(HandOver::Refused) | Err(_) => return None,
        };
        let (heard, is_heard) = oneshot::channel();
        let _ = handed_over.send(HandedOver {
            released,
            _heard: heard,
        });
        let _ = is_heard.await;
        Some(acquired)
    }

    pub(super) fn offered(&self) -> Option<Offer> {
        let mut state = self.waiters.state.lock();
        let channel = state.channels.get_mut(&self.channel)?;
        channel.own_releases.take_offer(self.waiter.goal)
    }
}
