//! Those who wait on one channel, and who of them tries next.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
    },
};

use tokio::{sync::Notify, time::Instant};
use tracing::Span;

use crate::{
    events::{Event, What},
    metrics::labels::Heard,
    types::{Goal, LockName, Owner},
    waiters::own_releases::OwnReleases,
};

/// In place of what is seen of a latch.
pub(crate) const NOT_SEEN: i64 = -1;

/// One waiting call.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    pub(crate) goal: Goal,
    pub(crate) since: Instant,
    pub(crate) head: AtomicBool,
    /// It tries with nothing that has to be looked up before it gets a lock.
    pub(crate) takes_offers: AtomicBool,
    pub(crate) position: AtomicU32,
    pub(crate) news: Notify,
    /// What the head has last seen of a latch, if it looked after this one had come.
    pub(crate) seen: AtomicI64,
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) subscription: Subscription,
    pub(crate) lines: BTreeMap<Goal, Line>,
    pub(crate) own_releases: OwnReleases,
    /// When the last release was heard of that nobody has been granted the lock after.
    pub(crate) released: Option<(Instant, Heard, Span)>,
}

/// Those who wait for the same thing, by ticket, which is their order.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) waiters: BTreeMap<u64, Arc<Waiter>>,
    /// A hint that no head has followed yet.
    pub(crate) hint: bool,
    /// The head makes an attempt.
    pub(crate) trying: bool,
    /// Becomes a hint if that attempt does not get the lock.
    pub(crate) hint_unless_granted: bool,
    /// Waits of this line that ended with what they were for.
    pub(crate) granted: u64,
    /// When the holder's lease ends, as last heard; none if its key has no time to live.
    pub(crate) holder_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// Under way: its task drops the channel if nobody waits when it is done.
    Pending,
    Done,
}

// === impl Channel ===

impl Channel {
    /// Leaves hints and stirs the heads.
    pub(crate) fn wake(&mut self) {
        for line in self.lines.values_mut() {
            line.hint = true;
            if let Some(head) = line.waiters.values().next() {
                head.news.notify_one();
            }
        }
    }
}

// === impl Line ===

impl Line {
    pub(crate) fn remove(&mut self, ticket: u64, waiter: &Waiter, took_all: bool) {
        self.waiters.remove(&ticket);
        if !waiter.head.load(Ordering::Relaxed) {
            return;
        }
        (self.trying, self.hint_unless_granted) = (false, false);
        self.granted += u64::from(took_all);
        if let Some(next) = self.waiters.values().next() {
            next.head.store(true, Ordering::Relaxed);
            // This one may have left with a hint in hand, or with a share of what there is.
            self.hint |= !took_all;
            next.news.notify_one();
        }
    }

    /// The head tries, which follows a hint if there is one. True if there was.
    pub(crate) fn begin_try(&mut self) -> bool {
        self.trying = true;
        std::mem::take(&mut self.hint)
    }

    /// The head's attempt got nothing.
    pub(crate) fn tried_in_vain(&mut self) {
        self.trying = false;
        self.hint |= std::mem::take(&mut self.hint_unless_granted);
    }
}

// === impl Waiter ===

impl Waiter {
    /// What watchers see of it.
    pub(crate) fn event(&self, what: What) -> Event {
        Event::of_wait(what, &self.name, self.goal, &self.owner)
    }

    pub(crate) fn takes_offers(&self) -> bool {
        self.takes_offers.load(Ordering::Relaxed)
    }
}
