//! What is asked of semaphores, and what comes of it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::script::{Batch, Ownership};

/// A permit's id, as Redisson makes them: random.
pub type PermitId = [u8; 16];

/// What identifies an acquire of permits, so that it can be repeated and undone.
#[derive(Clone, Copy, Debug)]
pub struct PermitAttempt<'a> {
    /// The request id, if the first answer is to be kept.
    pub request_id: Option<&'a str>,
    /// Unique for this attempt; several attempts may carry one request id.
    pub attempt: &'a str,
    /// The permits it is to take; no other attempt has the same ids.
    pub ids: &'a [PermitId],
}

/// What an acquire of permits came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitsAcquired {
    /// The owner holds them.
    Granted {
        /// Their ids: those of the attempt, or of the first one whose answer this is.
        ids: Vec<PermitId>,
        /// Permits that are free now.
        available: u32,
        /// Time to live at the moment the script ran.
        lease: Duration,
        /// Whether this repeats the first answer to the request.
        repeated: bool,
    },
    /// Too few are free.
    Busy {
        /// Permits that are free now.
        available: u32,
        /// When the next lease of a taken permit ends; none if none ever does.
        next_end: Option<Duration>,
    },
    /// The semaphore has not as many.
    TooMany {
        /// Permits that it has.
        total: u32,
    },
    /// There is no such semaphore.
    NoSemaphore,
}

/// What a release of permits came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitsReleased {
    /// They were given back.
    Done {
        /// How many.
        permits: u32,
        /// Permits that are free now.
        available: u32,
        /// Whether this repeats the first answer to the request.
        repeated: bool,
    },
    /// The owner does not hold one of them; nothing was given back.
    NotOwner(Ownership),
}

/// One grant of permits to renew.
#[derive(Clone, Debug)]
pub struct PermitRenewal {
    /// The semaphore.
    pub name: Arc<str>,
    /// The owner's field.
    pub owner: Arc<str>,
    /// The lease to count from now.
    pub lease: Duration,
    /// The permits.
    pub ids: Arc<[PermitId]>,
}

/// What renewals of permits came to: the time to live that they have now, at least what was asked
/// for, or why they are gone.
pub type PermitRenewals = Batch<Result<Duration, Ownership>>;

/// A semaphore after its size was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitsSet {
    /// Whether it was made.
    pub created: bool,
    /// Permits in all.
    pub total: u32,
    /// Permits that are free; negative if more are taken than there are.
    pub available: i64,
}

/// A semaphore as the store shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SemaphoreInspected {
    /// Permits in all; 0 if there is none.
    pub total: u32,
    /// Permits that are free; negative if more are taken than there are.
    pub available: i64,
    /// Who holds permits.
    pub holders: Vec<PermitHolder>,
}

/// An owner of permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermitHolder {
    /// The owner's field; empty for all that Redisson clients hold.
    pub owner: Bytes,
    /// How many.
    pub permits: u32,
    /// What is left of the longest lease; none if it never ends.
    pub remaining: Option<Duration>,
}
