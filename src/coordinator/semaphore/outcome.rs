//! Outcomes of semaphore operations.

use std::time::Duration;

use lockkeeper_store::script::PermitsSet;
use tokio::time::Instant;

use crate::{
    semaphore::attempt::PermitDelivery,
    types::{LockName, Owner, PermitGrant},
};

/// The answer to a semaphore operation.
#[derive(Debug)]
pub enum PermitAnswer {
    /// The wait goes on.
    Waiting(WaitingForPermits),
    /// The caller holds the permits once it takes this.
    Granted(PermitDelivery),
    /// The wait ended without a grant.
    NotGranted(PermitsNotGranted),
    /// The try succeeded: the caller holds the permits once it takes this.
    Acquired(PermitDelivery),
    /// Too few permits were free for the try.
    Busy {
        /// Free permits.
        available: u32,
    },
    /// Permits were released.
    Released {
        /// The number released.
        permits: u32,
        /// Free permits now.
        available: u32,
    },
    /// The grants with their new leases.
    Renewed(Vec<PermitGrant>),
    /// The semaphore has this size.
    Set(PermitsSet),
    /// The permits, their holders and their waiters.
    Described(SemaphoreDescription),
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
    /// Cancelled by the caller; otherwise its deadline passed.
    pub cancelled: bool,
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
