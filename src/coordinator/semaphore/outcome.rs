//! What came of it.

use std::time::Duration;

use lockkeeper_store::script::PermitsSet;
use tokio::time::Instant;

use crate::{
    semaphore::attempt::PermitDelivery,
    types::{LockName, Owner, PermitGrant},
};

/// What is answered.
#[derive(Debug)]
pub enum PermitAnswer {
    /// The wait goes on.
    Waiting(WaitingForPermits),
    /// The caller holds the permits as soon as it takes this.
    Granted(PermitDelivery),
    /// The wait ended without a grant.
    NotGranted(PermitsNotGranted),
    /// The try succeeded: the caller holds the permits as soon as it takes this.
    Acquired(PermitDelivery),
    /// Too few were free for the try.
    Busy {
        /// So many.
        available: u32,
    },
    /// Permits were given back.
    Released {
        /// How many.
        permits: u32,
        /// Permits that are free now.
        available: u32,
    },
    /// The grants with their new leases.
    Renewed(Vec<PermitGrant>),
    /// The semaphore has this size.
    Set(PermitsSet),
    /// How many permits there are, who holds them, who waits.
    Described(SemaphoreDescription),
}

/// The state of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingForPermits {
    /// 1 is the next to try at this coordinator.
    pub position: u32,
    /// Permits that were free when the store was last asked.
    pub available: u32,
    /// When the next lease of a taken permit ends; none if none ever does.
    pub next_end: Option<Instant>,
}

/// A wait that ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitsNotGranted {
    /// Cancelled by the caller; otherwise its time ran out.
    pub cancelled: bool,
    /// Permits that were free when the store was last asked.
    pub available: u32,
}

/// A semaphore as it was when the store was asked.
#[derive(Clone, Debug)]
pub struct SemaphoreDescription {
    /// The semaphore.
    pub name: LockName,
    /// Permits in all; 0 if there is no semaphore.
    pub total: u32,
    /// Permits that are free; negative if more are taken than there are.
    pub available: i64,
    /// The first who hold permits.
    pub holders: Vec<PermitHolderSeen>,
    /// How many owners hold permits.
    pub holder_count: usize,
    /// The first who wait at this coordinator.
    pub waiters: Vec<PermitWaiterSeen>,
    /// How many wait at this coordinator.
    pub waiter_count: usize,
}

/// An owner that holds permits.
#[derive(Clone, Debug)]
pub struct PermitHolderSeen {
    /// Who; none for all that Redisson clients hold.
    pub owner: Option<Owner>,
    /// How many.
    pub permits: u32,
    /// What is left of the longest lease; none if it never ends.
    pub remaining: Option<Duration>,
    /// The session's name, if it is connected here.
    pub client_name: String,
}

/// A call that waits for permits.
#[derive(Clone, Debug)]
pub struct PermitWaiterSeen {
    /// Who.
    pub owner: Owner,
    /// The session's name, if it is connected here.
    pub client_name: String,
    /// Since when.
    pub since: Instant,
}
