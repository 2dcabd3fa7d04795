//! Outcomes of semaphore operations.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    semaphore::attempt::PermitDelivery,
    summary::Summary,
    types::{LockName, Owner, WaitEnd},
};

/// The outcome of a try.
#[derive(Debug)]
pub enum TriedPermits {
    /// The caller holds the permits once it takes this.
    Acquired(PermitDelivery),
    /// Too few permits were free.
    Busy {
        /// Free permits.
        available: u32,
    },
}

/// A release of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleasedPermits {
    /// The number released.
    pub permits: u32,
    /// Free permits now.
    pub available: u32,
}

/// The state of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingForPermits {
    /// 1 is the head of the line at this coordinator.
    pub position: u32,
    /// Free permits when the store was last asked.
    pub available: u32,
    /// When the next lease of a taken permit ends; none if none ever does.
    pub next_end: Option<Instant>,
}

/// A wait that ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitsNotGranted {
    /// Why the wait ended.
    pub why: WaitEnd,
    /// Free permits when the store was last asked.
    pub available: u32,
}

/// A semaphore at the moment the store was asked.
#[derive(Clone, Debug)]
pub struct SemaphoreDescription {
    /// The semaphore.
    pub name: LockName,
    /// Permits in total; 0 if there is no semaphore.
    pub total: u32,
    /// Free permits; negative if more are taken than exist.
    pub available: i64,
    /// The first holders.
    pub holders: Vec<PermitHolderSeen>,
    /// The number of holders.
    pub holder_count: usize,
    /// The first waiters at this coordinator.
    pub waiters: Vec<PermitWaiterSeen>,
    /// The number of waiters at this coordinator.
    pub waiter_count: usize,
}

/// A holder of permits.
#[derive(Clone, Debug)]
pub struct PermitHolderSeen {
    /// The owner; none for the sum of all Redisson clients.
    pub owner: Option<Owner>,
    /// The number of permits.
    pub permits: u32,
    /// Remaining time of the longest lease; none if it never ends.
    pub remaining: Option<Duration>,
    /// The session's client name, if it is connected here.
    pub client_name: String,
    /// When the first of them was granted, if a session here holds them.
    pub since: Option<Instant>,
}

/// A waiter for permits.
#[derive(Clone, Debug)]
pub struct PermitWaiterSeen {
    /// The owner.
    pub owner: Owner,
    /// The session's client name, if it is connected here.
    pub client_name: String,
    /// Start of the wait.
    pub since: Instant,
}

// === impl TriedPermits ===

impl TriedPermits {
    pub(crate) fn summary(&self) -> Summary {
        match self {
            Self::Acquired(_) => Summary::Granted(None),
            Self::Busy { .. } => Summary::Busy,
        }
    }
}

// === impl PermitsNotGranted ===

impl PermitsNotGranted {
    pub(crate) fn summary(self) -> Summary {
        Summary::NotGranted(self.why)
    }
}
