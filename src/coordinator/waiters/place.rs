//! What a waiter does from its place in a line.

use std::{sync::atomic::Ordering, time::Duration};

use lockkeeper_store::script::Mode;
use tokio::time::Instant;
use tracing::Span;

use crate::{
    types::Goal,
    waiters::queue::{QueueTicket, State},
};

/// A holder's lease that ends this much earlier or later than it was known to is news to those who
/// wait.
const LEASE_NEWS: Duration = Duration::from_millis(500);

/// What a waiter is told: 1 is the next to try, and when the holder's lease ends, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueStatus {
    pub(crate) position: u32,
    pub(crate) holder_until: Option<Instant>,
}

// === impl QueueTicket ===

impl QueueTicket {
    /// This waiter may be given a lock as soon as another gives it back, see
    /// [`QueueTicket::take_over`].
    pub(crate) fn take_offers(&self) {
        self.waiter.takes_offers.store(true, Ordering::Relaxed);
    }

    /// Resolves when something may have changed: a hint, the head's role, a position.
    pub(crate) async fn news(&self) {
        self.waiter.news.notified().await;
    }

    /// Whether this waiter is the one that tries without a hint too. Of a fair lock there is one in
    /// the whole store.
    pub(crate) fn is_next(&self) -> bool {
        let head = self.waiter.head.load(Ordering::Relaxed);
        let first = || self.waiter.position.load(Ordering::Relaxed) == 1;
        head && (self.waiter.goal != Goal::Lock(Mode::Fair) || first())
    }

    /// Whether there is a hint and this waiter is to follow it, which it does now.
    pub(crate) fn follows_hint(&self) -> bool {
        self.waiter.head.load(Ordering::Relaxed)
            && self
                .waiters
                .state
                .lock()
                .line(self)
                .is_some_and(|line| line.hint && line.begin_try())
    }

    /// This waiter tries now, hint or not.
    pub(crate) fn begin_try(&self) {
        if self.waiter.head.load(Ordering::Relaxed)
            && let Some(line) = self.waiters.state.lock().line(self)
        {
            line.begin_try();
        }
    }

    /// An attempt had no outcome.
    pub(crate) fn no_outcome(&self) {
        if let Some(line) = self.waiters.state.lock().line(self) {
            line.tried_in_vain();
        }
    }

    /// Where this waiter stands, as far as it should be told now.
    pub(crate) fn standing(&self) -> QueueStatus {
        let mut state = self.waiters.state.lock();
        let line = state.line(self);
        QueueStatus {
            position: self.waiter.position.load(Ordering::Relaxed),
            holder_until: line.and_then(|line| line.holder_until),
        }
    }

    /// An attempt of the head found the lock held until then, and its own place in the store's
    /// queue if that is known.
    pub(crate) fn busy_until(&self, holder_until: Option<Instant>, place: Option<u32>) {
        if let Some(place) = place {
            self.waiter.position.store(place, Ordering::Relaxed);
        }
        let mut state = self.waiters.state.lock();
        let Some(line) = state.line(self) else {
            return;
        };
        line.tried_in_vain();
        let (known, is_over) = (
            std::mem::replace(&mut line.holder_until, holder_until),
            !line.hint,
        );
        if is_over && let Some(channel) = state.channels.get_mut(&self.channel) {
            channel.released = None;
        }
        if lease_is_news(known, holder_until) {
            self.waiters.moved(&mut state, &self.channel);
        }
    }

    /// Leaves with the lock, which is held until then at the least. Readers leave room for more.
    pub(crate) fn leave_granted(&mut self, holder_until: Instant) {
        self.took_all = self.waiter.goal != Goal::Lock(Mode::Read);
        let mut state = self.waiters.state.lock();
        let Some(line) = state.line(self) else {
            return;
        };
        let known = line.holder_until.replace(holder_until);
        self.handed_over(&mut state);
        if lease_is_news(known, Some(holder_until)) {
            self.waiters.moved(&mut state, &self.channel);
        }
    }

    /// Leaves with permits, after which none are left if `took_all`.
    pub(crate) fn leave_with_permits(&mut self, took_all: bool) {
        self.took_all = took_all;
        self.handed_over(&mut self.waiters.state.lock());
    }

    fn handed_over(&self, state: &mut State) {
        let channel = state.channels.get_mut(&self.channel);
        if let Some((released_at, heard, span)) = channel.and_then(|it| it.released.take()) {
            self.waiters.metrics.handed_over(heard, released_at);
            Span::current().follows_from(&span);
        }
    }

    /// Those who have come so far: what is seen of a latch from now on is true for them.
    pub(crate) fn begin_look(&self) -> u64 {
        self.waiters.state.lock().next_ticket
    }

    /// Tells those who had come when the look at a latch began what was seen.
    pub(crate) fn tell_seen(&self, begun: u64, count: u32) {
        let mut state = self.waiters.state.lock();
        let Some(line) = state.line(self) else {
            return;
        };
        for waiter in line.waiters.range(..=begun).map(|(_, waiter)| waiter) {
            if waiter.seen.swap(count.into(), Ordering::Relaxed) != i64::from(count) {
                waiter.news.notify_one();
            }
        }
    }

    /// What was last seen of a latch since this one waits.
    pub(crate) fn seen(&self) -> Option<u32> {
        u32::try_from(self.waiter.seen.load(Ordering::Relaxed)).ok()
    }
}

// === impl QueueStatus ===

impl QueueStatus {
    /// Whether somebody who was told `before` should be told this.
    pub(crate) fn is_news(self, before: Self) -> bool {
        self.position != before.position || lease_is_news(before.holder_until, self.holder_until)
    }
}

/// Moments that are computed from remaining times differ by a little even if nothing happened.
fn lease_is_news(before: Option<Instant>, after: Option<Instant>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => after > before + LEASE_NEWS || before > after + LEASE_NEWS,
        (before, after) => before.is_some() != after.is_some(),
    }
}
