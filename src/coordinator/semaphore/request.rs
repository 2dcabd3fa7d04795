//! What can be asked of a semaphore, already checked.

use std::time::Duration;

use lockkeeper_store::script::PermitId;

use crate::types::{Invalid, Lease, LockName, Owner, RequestId};

/// Something to do with a semaphore, already checked.
#[derive(Clone, Debug)]
pub enum PermitOperation {
    /// Wait for permits.
    Acquire(AcquirePermits),
    /// Take permits if that can be done now; `wait` is not used.
    TryAcquire(AcquirePermits),
    /// Give permits back.
    Release(ReleasePermits),
    /// Extend leases.
    Renew(RenewPermits),
    /// Make a semaphore or change its size.
    Set(SetPermits),
    /// Tell how many permits there are and who holds them.
    Describe(LockName),
}

/// A wish to hold permits.
#[derive(Clone, Debug)]
pub struct AcquirePermits {
    /// The semaphore.
    pub name: LockName,
    /// Who wants them.
    pub owner: Owner,
    /// How many.
    pub permits: PermitCount,
    /// None: watched in a session, else the default lease.
    pub lease: Option<Lease>,
    /// None: without limit.
    pub wait: Option<Duration>,
    /// Makes a repeat safe.
    pub request_id: Option<RequestId>,
    /// As of [`crate::Acquire`].
    pub min_replica_acks: u32,
}

/// How many permits to take at once: at least one, and within the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitCount(u32);

/// Permits to give back.
#[derive(Clone, Debug)]
pub struct ReleasePermits {
    /// The semaphore.
    pub name: LockName,
    /// Who holds them.
    pub owner: Owner,
    /// Which; none: all of the owner's.
    pub ids: Vec<PermitId>,
    /// Makes a repeat safe.
    pub request_id: Option<RequestId>,
}

/// Leases to extend.
#[derive(Clone, Debug)]
pub struct RenewPermits {
    /// The semaphore.
    pub name: LockName,
    /// Who holds them.
    pub owner: Owner,
    /// Of which permits; none, in a session only: all of the owner's.
    pub ids: Vec<PermitId>,
    /// None: the grant's own in a session, else the default lease.
    pub lease: Option<Lease>,
}

/// A size to give a semaphore.
#[derive(Clone, Debug)]
pub struct SetPermits {
    /// The semaphore.
    pub name: LockName,
    /// Permits in all.
    pub permits: u32,
    /// Leaves a semaphore that there is as it is.
    pub only_if_absent: bool,
}

// === impl PermitOperation ===

impl PermitOperation {
    /// For logs and task names.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Acquire(_) => "acquire_permits",
            Self::TryAcquire(_) => "try_acquire_permits",
            Self::Release(_) => "release_permits",
            Self::Renew(_) => "renew_permits",
            Self::Set(_) => "set_permits",
            Self::Describe(_) => "describe_semaphore",
        }
    }
}

// === impl PermitCount ===

impl PermitCount {
    /// The most that one request can name. A script does something for each of them, and nothing
    /// else runs in the store meanwhile.
    pub const MAX: u32 = 1000;

    /// Checks a number.
    pub fn new(permits: u32) -> Result<Self, Invalid> {
        if !(1..=Self::MAX).contains(&permits) {
            let why = format!("must be from 1 to {}, is {permits}", Self::MAX);
            return Err(Invalid::new("permits", why));
        }
        Ok(Self(permits))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}
