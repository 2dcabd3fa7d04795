//! The lines of one channel and their heads.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering},
    },
};

use lockkeeper_access::Identity;
use tokio::{sync::Notify, time::Instant};
use tracing::Span;

use crate::{
    events::{Event, What},
    metrics::labels::Heard,
    types::{Goal, HolderKnown, LockName, Owner},
    waiters::own_releases::OwnReleases,
};

/// Replaces the count of a latch that has not been seen.
pub(crate) const NOT_SEEN: i64 = -1;

/// One waiter.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) name: LockName,
    pub(crate) owner: Owner,
    /// Who has its place; none if that caller has no quotas.
    pub(crate) caller: Option<Identity>,
    pub(crate) goal: Goal,
    pub(crate) since: Instant,
    pub(crate) head: AtomicBool,
    /// It says nothing of the hold that it waits for, so the lock can be handed over to it.
    pub(crate) takes_offers: AtomicBool,
    /// Its caller wants it to end if it is part of a deadlock.
    pub(crate) ends_on_deadlock: AtomicBool,
    pub(crate) ended_in_deadlock: AtomicBool,
    pub(crate) position: AtomicU32,
    pub(crate) news: Notify,
    /// The count that the head last saw of a latch, if it looked after this waiter joined.
    pub(crate) seen: AtomicI64,
}

#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) subscription: Subscription,
    pub(crate) lines: BTreeMap<Goal, Line>,
    pub(crate) own_releases: OwnReleases,
    /// Releases of readers here before one that may be the last.
    pub(crate) others_read: u32,
    /// When the last release was heard of that no grant has followed.
    pub(crate) released: Option<(Instant, Heard, Span)>,
}

/// The waiters for the same goal, ordered by ticket.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) waiters: BTreeMap<u64, Arc<Waiter>>,
    /// A hint that no head has followed yet.
    pub(crate) hint: bool,
    /// The head is making an attempt.
    pub(crate) trying: bool,
    /// Becomes a hint if that attempt does not get the lock.
    pub(crate) hint_unless_granted: bool,
    /// Waits of this line that ended with success.
    pub(crate) granted: u64,
    /// What is known of the holder, as last heard.
    pub(crate) holder: HolderKnown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subscription {
    /// In progress: its task drops the channel if nobody waits when it is done.
    #[default]
    Pending,
    Done,
}

// === impl Channel ===

impl Channel {
    /// Sets hints and wakes the heads.
    pub(crate) fn wake(&mut self) {
        self.lines.values_mut().for_each(Line::wake);
    }
}

// === impl Line ===

impl Line {
    /// Sets a hint and wakes the head.
    pub(crate) fn wake(&mut self) {
        self.hint = true;
        if let Some(head) = self.waiters.values().next() {
            head.news.notify_one();
        }
    }

    pub(crate) fn remove(&mut self, ticket: u64, waiter: &Waiter, took_all: bool) {
        self.waiters.remove(&ticket);
        if !waiter.head.load(Ordering::Relaxed) {
            return;
        }
        (self.trying, self.hint_unless_granted) = (false, false);
        self.granted += u64::from(took_all);
        if let Some(next) = self.waiters.values().next() {
            next.head.store(true, Ordering::Relaxed);
            // This waiter may have left with an unfollowed hint, or with only a share of what there
            // is. Another wait of the owner that has the lock now adds a hold.
            let may_add = next.owner == waiter.owner && next.goal != Goal::Permits;
            self.hint |= !took_all || may_add;
            next.news.notify_one();
        }
    }

    /// The head tries and consumes the hint. True if there was one.
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
    pub(crate) fn new(
        name: &LockName,
        goal: Goal,
        (owner, caller): (Owner, Option<Identity>),
        is_head: bool,
        position: u32,
    ) -> Self {
        Self {
            name: name.clone(),
            owner,
            caller,
            goal,
            since: Instant::now(),
            head: AtomicBool::new(is_head),
            takes_offers: AtomicBool::new(false),
            ends_on_deadlock: AtomicBool::new(false),
            ended_in_deadlock: AtomicBool::new(false),
            position: AtomicU32::new(position),
            news: Notify::new(),
            seen: AtomicI64::new(NOT_SEEN),
        }
    }

    /// The event that watchers see.
    pub(crate) fn event(&self, what: What) -> Event {
        Event::of_goal(what, &self.name, self.goal, &self.owner)
    }

    pub(crate) fn takes_offers(&self) -> bool {
        self.takes_offers.load(Ordering::Relaxed)
    }

    pub(crate) fn ends_on_deadlock(&self) -> bool {
        self.ends_on_deadlock.load(Ordering::Relaxed)
    }

    /// Ends the wait, unless it gets what it waits for before it notices.
    pub(crate) fn end_in_deadlock(&self) {
        self.ended_in_deadlock.store(true, Ordering::Relaxed);
        self.news.notify_one();
    }
}
