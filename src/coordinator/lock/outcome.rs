//! Outcomes of lock operations.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{Mode, Note};
use tokio::time::Instant;

use crate::{
    lock::delivery::Delivery,
    summary::Summary,
    types::{HolderKnown, LockName, Owner, WaitEnd},
};

/// The outcome of a try.
#[derive(Debug)]
pub enum Tried {
    /// The caller holds the lock once it takes this.
    Acquired(Delivery),
    /// Another owner holds it.
    Busy {
        /// What is known of the holder.
        holder: HolderKnown,
    },
}

/// The state of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// 1 is the head of the line: at this coordinator, or in the whole store for a fair lock.
    pub position: u32,
    /// What is known of the holder.
    pub holder: HolderKnown,
}

/// A wait or a try that ended without a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotGranted {
    /// Why the wait ended.
    pub why: WaitEnd,
    /// What is known of the holder, as last heard.
    pub holder: HolderKnown,
}

/// A lock at the moment the store was asked.
#[derive(Clone, Debug)]
pub struct Description {
    /// The lock.
    pub name: LockName,
    /// The mode it is held in; none if it is free.
    pub mode: Option<Mode>,
    /// The first holders.
    pub holders: Vec<HolderSeen>,
    /// The number of holders.
    pub holder_count: usize,
    /// Remaining lease; none if the lock is free or its key has no time to live.
    pub remaining: Option<Duration>,
    /// The newest fencing token; 0 if none is known.
    pub fencing_token: u64,
    /// The first waiters: all of a fair lock, otherwise those at this coordinator.
    pub waiters: Vec<WaiterSeen>,
    /// The number of waiters, counted in the same way.
    pub waiter_count: usize,
}

/// A holder of a lock.
#[derive(Clone, Debug)]
pub struct HolderSeen {
    /// The owner.
    pub owner: Owner,
    /// The mode it holds the lock in.
    pub mode: Mode,
    /// The number of holds.
    pub hold_count: u32,
    /// Remaining lease; none if it has no time to live.
    pub remaining: Option<Duration>,
    /// The session's client name, if it is connected here.
    pub client_name: String,
    /// What it says of its hold.
    pub note: Option<Arc<Note>>,
    /// When it was granted, if a session here holds it.
    pub since: Option<Instant>,
}

/// A waiter.
#[derive(Clone, Debug)]
pub struct WaiterSeen {
    /// The owner.
    pub owner: Owner,
    /// The mode it wants.
    pub mode: Mode,
    /// The session's client name, if it is connected here.
    pub client_name: String,
    /// Start of the wait, if it waits here.
    pub since: Option<Instant>,
}

/// The result of a token check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenChecked {
    /// Whether it is the newest grant's token.
    pub current: bool,
    /// The newest grant's token; 0 if none is known.
    pub last: u64,
    /// Whether the lock is held.
    pub held: bool,
}

// === impl Tried ===

impl Tried {
    pub(crate) fn summary(&self) -> Summary {
        match self {
            Self::Acquired(delivery) => delivery.summary(),
            Self::Busy { .. } => Summary::Busy,
        }
    }
}

// === impl NotGranted ===

impl NotGranted {
    pub(crate) fn timed_out(holder: HolderKnown) -> Self {
        Self {
            why: WaitEnd::TimedOut,
            holder,
        }
    }

    pub(crate) fn cancelled() -> Self {
        Self {
            why: WaitEnd::Cancelled,
            holder: HolderKnown::default(),
        }
    }

    pub(crate) fn deadlock(holder: HolderKnown) -> Self {
        Self {
            why: WaitEnd::Deadlock,
            holder,
        }
    }

    pub(crate) fn is_timeout(&self) -> bool {
        self.why == WaitEnd::TimedOut
    }

    pub(crate) fn summary(&self) -> Summary {
        Summary::NotGranted(self.why)
    }
}
