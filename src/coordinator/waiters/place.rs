//! Operations of a waiter on its ticket in a line.

use std::{sync::atomic::Ordering, time::Duration};

use lockkeeper_store::script::Mode;
use tokio::{sync::futures::Notified, time::Instant};
use tracing::Span;

use crate::{
    types::{Goal, HolderKnown},
    waiters::queue::{QueueTicket, State},
};

/// The smallest change of the holder's lease end that waiters are notified of.
const LEASE_NEWS: Duration = Duration::from_millis(500);

/// The status a waiter is notified of: position (1 is the head of the line), and what is known
/// of the holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueStatus {
    pub(crate) position: u32,
    pub(crate) holder: HolderKnown,
}

// === impl QueueTicket ===

impl QueueTicket {
    /// Marks this waiter as able to accept an offered lock, see [`QueueTicket::take_over`].
    pub(crate) fn take_offers(&self) {
        self.waiter.takes_offers.store(true, Ordering::Relaxed);
    }

    /// Lets the wait end if it is part of a deadlock and the youngest that may.
    pub(crate) fn end_on_deadlock(&self) {
        let waiter = &self.waiter;
        waiter.ends_on_deadlock.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended_in_deadlock(&self) -> bool {
        self.waiter.ended_in_deadlock.load(Ordering::Relaxed)
    }

    /// Resolves on a possible change: a hint, the head role, a position.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.waiter.news.notified()
    }

    /// Whether this waiter also tries without a hint. A fair lock has one such waiter in the whole
    /// store.
    pub(crate) fn is_next(&self) -> bool {
        let head = self.waiter.head.load(Ordering::Relaxed);
        let first = || self.waiter.position.load(Ordering::Relaxed) == 1;
        head && (self.waiter.goal != Goal::Lock(Mode::Fair) || first())
    }

    /// Whether this waiter has a hint to follow; consumes the hint.
    pub(crate) fn follows_hint(&self) -> bool {
        self.waiter.head.load(Ordering::Relaxed)
            && self
                .waiters
                .state
                .lock()
                .line(self)
                .is_some_and(|line| line.hint && line.begin_try())
    }

    /// Starts a try, hint or not.
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

    /// The status of this waiter, as far as it is worth a notification now.
    pub(crate) fn standing(&self) -> QueueStatus {
        let mut state = self.waiters.state.lock();
        let line = state.line(self);
        QueueStatus {
            position: self.waiter.position.load(Ordering::Relaxed),
            holder: line.map(|line| line.holder.clone()).unwrap_or_default(),
        }
    }

    /// An attempt of the head found the lock held until then; `place` is its position in the
    /// store's queue, if known.
    pub(crate) fn busy_until(&self, holder: HolderKnown, place: Option<u32>) {
        if let Some(place) = place {
            self.waiter.position.store(place, Ordering::Relaxed);
        }
        let mut state = self.waiters.state.lock();
        let Some(line) = state.line(self) else {
            return;
        };
        line.tried_in_vain();
        let is_news = is_news(&line.holder, &holder);
        line.holder = holder;
        let is_over = !line.hint;
        if is_over && let Some(channel) = state.channels.get_mut(&self.channel) {
            channel.released = None;
        }
        if is_news {
            self.waiters.moved(&mut state, &self.channel);
        }
    }

    /// Leaves with the lock, as its holder. Readers leave room for more.
    pub(crate) fn leave_granted(&mut self, holder: HolderKnown) {
        self.took_all = self.waiter.goal != Goal::Lock(Mode::Read);
        let mut state = self.waiters.state.lock();
        let Some(line) = state.line(self) else {
            return;
        };
        let is_news = is_news(&line.holder, &holder);
        line.holder = holder;
        self.handed_over(&mut state);
        if is_news {
            self.waiters.moved(&mut state, &self.channel);
        }
    }

    /// Leaves with permits; none are left if `took_all`.
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

    /// The waiters so far, as a ticket bound: what is seen of a latch from now on is true for them.
    pub(crate) fn begin_look(&self) -> u64 {
        self.waiters.state.lock().next_ticket
    }

    /// Notifies the waiters that had joined before the look at a latch began.
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

    /// The last count seen of a latch since this waiter joined.
    pub(crate) fn seen(&self) -> Option<u32> {
        u32::try_from(self.waiter.seen.load(Ordering::Relaxed)).ok()
    }
}

// === impl QueueStatus ===

impl QueueStatus {
    /// Whether a waiter notified of `before` should be notified of this.
    pub(crate) fn is_news(&self, before: &Self) -> bool {
        self.position != before.position || is_news(&before.holder, &self.holder)
    }
}

/// Whether another holder is known, or another end of its lease.
fn is_news(before: &HolderKnown, after: &HolderKnown) -> bool {
    before.note != after.note || lease_is_news(before.until, after.until)
}

/// Moments computed from remaining times differ slightly even if nothing happened.
fn lease_is_news(before: Option<Instant>, after: Option<Instant>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) => after > before + LEASE_NEWS || before > after + LEASE_NEWS,
        (before, after) => before.is_some() != after.is_some(),
    }
}
