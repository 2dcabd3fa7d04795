//! What came of it.

use std::time::Duration;

use lockkeeper_store::script::Mode;
use tokio::time::Instant;

use crate::{
    lock::delivery::Delivery,
    types::{LockName, Owner},
};

/// What a try came to.
#[derive(Debug)]
pub enum Tried {
    /// The caller holds the lock as soon as it takes this.
    Acquired(Delivery),
    /// Somebody else holds it.
    Busy {
        /// When the holder's lease ends; none if its key has no time to live.
        holder_until: Option<Instant>,
    },
}

/// The state of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// 1 is the next to try: at this coordinator, of a fair lock among all.
    pub position: u32,
    /// When the holder's lease ends; none if its key has no time to live.
    pub holder_until: Option<Instant>,
}

/// A wait or a try that ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotGranted {
    /// Cancelled by the caller; otherwise its time ran out.
    pub cancelled: bool,
    /// When the holder's lease ends, as last heard.
    pub holder_until: Option<Instant>,
}

/// A lock as it was when the store was asked.
#[derive(Clone, Debug)]
pub struct Description {
    /// The lock.
    pub name: LockName,
    /// How it is held; none if nobody holds it.
    pub mode: Option<Mode>,
    /// The first who hold it.
    pub holders: Vec<HolderSeen>,
    /// How many hold it.
    pub holder_count: usize,
    /// What is left of the lease; none if nobody holds it or the key has no time to live.
    pub remaining: Option<Duration>,
    /// The newest token; 0: none known.
    pub fencing_token: u64,
    /// The first who wait: of a fair lock all that wait, of others those at this coordinator.
    pub waiters: Vec<WaiterSeen>,
    /// How many wait, counted in the same way.
    pub waiter_count: usize,
}

/// An owner that holds a lock.
#[derive(Clone, Debug)]
pub struct HolderSeen {
    /// Who.
    pub owner: Owner,
    /// How it holds the lock.
    pub mode: Mode,
    /// Holds.
    pub hold_count: u32,
    /// What is left of its lease; none if it has no time to live.
    pub remaining: Option<Duration>,
    /// The session's name, if it is connected here.
    pub client_name: String,
}

/// A call that waits.
#[derive(Clone, Debug)]
pub struct WaiterSeen {
    /// Who.
    pub owner: Owner,
    /// How it wants to hold the lock.
    pub mode: Mode,
    /// The session's name, if it is connected here.
    pub client_name: String,
    /// Since when, if it waits here.
    pub since: Option<Instant>,
}

/// About a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenChecked {
    /// It is the newest grant's.
    pub current: bool,
    /// The newest grant's token; 0: none known.
    pub last: u64,
    /// Somebody holds the lock.
    pub held: bool,
}

// === impl NotGranted ===

impl NotGranted {
    pub(crate) fn timed_out(holder_until: Option<Instant>) -> Self {
        Self {
            cancelled: false,
            holder_until,
        }
    }

    pub(crate) fn cancelled() -> Self {
        Self {
            cancelled: true,
            holder_until: None,
        }
    }

    pub(crate) fn is_timeout(self) -> bool {
        !self.cancelled
    }
}
