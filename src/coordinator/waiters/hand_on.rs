//! Handing a lock on within one coordinator: in one call with the attempt of the head of the line,
//! if that can be (see [`super::offer`]). Otherwise the head tries as soon as the release is on its
//! way, right behind it, and does not wait to hear of it. Both reach the store at the same time, so
//! the lock changes hands in one round trip.
//!
//! That is a hint like others, and an early one: the attempt may still come before the release. So
//! it is repeated when the release is over, unless somebody was granted the lock meanwhile. The
//! message of such a release tells nothing that has not been told, and is passed over. Messages of
//! one channel come in order, so if that of another release is passed over in its place, that one
//! was earlier, and an attempt comes after both.

use std::{future::Future, pin::pin, task::Poll, time::Duration};

use futures::poll;
use lockkeeper_store::script::{CallError, Mode, Released};
use tokio::time::Instant;
use tracing::Span;

use crate::{
    metrics::{Heard, Source},
    types::{Goal, LockName, Owner},
    waiters::{Subscription, Waiters, offer::Offer},
};

/// So many releases in a row are handed on here. Then one is only published, so that those who wait
/// elsewhere have a turn.
const IN_A_ROW_MAX: u32 = 16;

/// For so long a lock that is handed on need not be free in between. Who waits elsewhere hears
/// nothing meanwhile, so it is little compared to what they can notice, and longer than so many
/// quick ones take.
const IN_ONE_CALL_FOR: Duration = Duration::from_millis(5);

/// A message that has not come after this time is not expected any more.
const MESSAGE_WITHIN: Duration = Duration::from_secs(1);

/// Releases of one channel that were handed on here.
#[derive(Debug, Default)]
pub(super) struct OwnReleases {
    /// Those whose messages have not come yet.
    unannounced: u32,
    /// When the last of them was sent.
    sent_at: Option<Instant>,
    in_a_row: u32,
    /// When the first of those in a row was handed on.
    in_a_row_since: Option<Instant>,
    /// The last one was not handed on: its message, or whichever comes first, has to be followed.
    is_announced_only: bool,
    /// One that is about to be made, if the head does not take it over.
    pub(super) offer: Option<Offer>,
}

/// An exclusive lock that somebody waits for here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// When the holder's lease ends, as last heard; none if its key has no time to live.
    pub(crate) holder_until: Option<Instant>,
}

/// A release that is under way and was handed on: how many had been granted the lock before, and
/// when it was sent.
struct HandedOn(u64, Instant);

pub(super) const EXCLUSIVE: Goal = Goal::Lock(Mode::Exclusive);

// === impl Waiters ===

impl Waiters {
    /// Gives the last hold of an exclusive lock, of the grant with this serial, to who waits for it
    /// here: `in_one_call` with the next acquire, unless replicas are to know of the release.
    /// Otherwise makes the call that gives it back, and the next acquire comes right behind it.
    pub(crate) async fn hand_on<F>(
        &self,
        name: &LockName,
        (owner, serial): (&Owner, Option<u64>),
        in_one_call: bool,
        release: F,
    ) -> F::Output
    where
        F: Future<Output = Result<Released, CallError>>,
    {
        // In a box, so that a release that nobody waits for does not carry it.
        if in_one_call
            && let Some(handed_over) = self.offer(name, owner, serial)
            && let Some(released) = Box::pin(self.hand_over(name, owner, handed_over)).await
        {
            return released;
        }
        let mut release = pin!(release);
        // Sends it, so that whatever comes now comes after it.
        if let Poll::Ready(released) = poll!(&mut release) {
            if let Ok(Released::Done { held: 0, .. }) = released {
                self.release_told(name);
            }
            return released;
        }
        let Some(handed_on) = self.release_sent(name) else {
            return release.await;
        };
        let released = release.await;
        self.release_ended(name, &handed_on, &released);
        released
    }

    /// What those know who wait here for an exclusive lock; none if there are none.
    pub(crate) fn awaited(&self, name: &LockName) -> Option<Awaited> {
        let mut state = self.state.lock();
        let channel = state.channel_of(name)?;
        let line = channel.lines.get(&EXCLUSIVE)?;
        let holder_until = line.holder_until;
        Some(Awaited { holder_until })
    }

    /// A release has run, and whoever waits, here or elsewhere, is told of it by its message.
    fn release_told(&self, name: &LockName) {
        if let Some(channel) = self.state.lock().channel_of(name) {
            channel.own_releases.turn_of_others();
        }
    }

    /// None if nobody waits here, or if it is the turn of others.
    fn release_sent(&self, name: &LockName) -> Option<HandedOn> {
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
        Some(HandedOn(granted, sent_at))
    }

    fn release_ended(
        &self,
        name: &LockName,
        handed_on: &HandedOn,
        released: &Result<Released, CallError>,
    ) {
        let mut state = self.state.lock();
        let Some(channel) = state.channel_of(name) else {
            return;
        };
        match released {
            Ok(Released::Done { held: 0, .. }) => {}
            Ok(_) | Err(CallError::Unavailable(_)) => return channel.own_releases.unsent(),
            // Whether a message comes is not known.
            Err(_) => channel.own_releases.forget(),
        }
        let Some(line) = channel.lines.get_mut(&EXCLUSIVE) else {
            return;
        };
        if line.granted != handed_on.0 || line.hint {
            return;
        }
        channel.released = Some((handed_on.1, Heard::Local, Span::current()));
        if line.trying {
            line.hint_unless_granted = true;
        } else {
            channel.wake();
        }
    }
}

// === impl OwnReleases ===

impl OwnReleases {
    /// Whether the next one may be offered: not if others should hear of it by now, or another one
    /// is.
    pub(super) fn may_be_offered(&self) -> bool {
        let is_early = |since: Instant| since.elapsed() < IN_ONE_CALL_FOR;
        let others_can_wait =
            self.in_a_row < IN_A_ROW_MAX && self.in_a_row_since.is_none_or(is_early);
        others_can_wait && self.offer.is_none()
    }

    /// The head takes the release that is offered to it.
    pub(super) fn take_offer(&mut self) -> Option<Offer> {
        let offer = self.offer.take()?;
        self.one_more();
        Some(offer)
    }

    /// A release is on its way, whose message will come if the channel is heard. False if it is not
    /// to be handed on.
    fn sent(&mut self, is_heard: bool) -> bool {
        self.is_announced_only = self.in_a_row >= IN_A_ROW_MAX;
        if self.is_announced_only {
            self.turn_of_others();
            return false;
        }
        self.one_more();
        if is_heard {
            self.unannounced += 1;
            self.sent_at = Some(Instant::now());
        }
        true
    }

    fn turn_of_others(&mut self) {
        (self.in_a_row, self.in_a_row_since) = (0, None);
    }

    fn one_more(&mut self) {
        self.in_a_row += 1;
        self.in_a_row_since.get_or_insert_with(Instant::now);
    }

    /// It turned out that it tells nobody anything.
    fn unsent(&mut self) {
        self.unannounced = self.unannounced.saturating_sub(1);
    }

    /// A message has come. True if it is that of a release that was handed on.
    pub(super) fn announced(&mut self) -> bool {
        let is_expected = self.sent_at.is_some_and(|at| at.elapsed() < MESSAGE_WITHIN);
        if self.is_announced_only || !is_expected || self.unannounced == 0 {
            self.forget();
            return false;
        }
        self.unannounced -= 1;
        true
    }

    /// Messages may have been missed.
    pub(super) fn forget(&mut self) {
        self.unannounced = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_message_of_each_release_is_passed_over_once() {
        let mut own = OwnReleases::default();
        assert!(own.sent(true) && own.sent(true));
        own.unsent();
        assert!(own.announced());
        assert!(!own.announced(), "somebody else has released");
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_missed_is_not_waited_for() {
        let mut own = OwnReleases::default();
        assert!(own.sent(true));
        own.forget();
        assert!(!own.announced());
        assert!(own.sent(true));
        tokio::time::advance(MESSAGE_WITHIN).await;
        assert!(!own.announced());
    }

    #[tokio::test(start_paused = true)]
    async fn messages_that_were_not_heard_do_not_stand_for_others() {
        let mut own = OwnReleases::default();
        assert!(own.sent(false));
        assert!(!own.announced(), "somebody else has released");
        // One is lost on the way.
        assert!((0..IN_A_ROW_MAX - 1).all(|_| own.sent(true)));
        assert!((1..IN_A_ROW_MAX - 1).all(|_| own.announced()));
        assert!(!own.sent(true));
        assert!(!own.announced(), "nobody else follows it");
    }

    #[tokio::test(start_paused = true)]
    async fn others_have_their_turn() {
        let mut own = OwnReleases::default();
        for _ in 0..3 {
            assert!((0..IN_A_ROW_MAX).all(|_| own.sent(true)));
            assert!(!own.sent(true));
        }
    }
}
