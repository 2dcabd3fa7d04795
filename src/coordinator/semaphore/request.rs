//! Validated requests for a semaphore.

use std::time::Duration;

use lockkeeper_access::Account;
use lockkeeper_store::script::PermitId;

use crate::{
    metrics::labels::Kind,
    summary::{Counts, Subject},
    types::{Invalid, Lease, LockName, Owner, RequestId},
};

/// A request for permits.
#[derive(Clone, Debug)]
pub struct AcquirePermits {
    /// The semaphore.
    pub name: LockName,
    /// The owner that wants them.
    pub owner: Owner,
    /// The number of permits.
    pub permits: PermitCount,
    /// None: watched in a session, otherwise the default lease.
    pub lease: Option<Lease>,
    /// None: unlimited.
    pub wait: Option<Duration>,
    /// Makes a repeat idempotent.
    pub request_id: Option<RequestId>,
    /// See [`crate::Acquire::min_replica_acks`].
    pub min_replica_acks: u32,
    /// The caller, whose quota the permits take.
    pub account: Account,
}

/// Number of permits to take at once: at least one, and within the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitCount(u32);

/// Permits to release.
#[derive(Clone, Debug)]
pub struct ReleasePermits {
    /// The semaphore.
    pub name: LockName,
    /// The holder.
    pub owner: Owner,
    /// The permits to release; empty: all of the owner's.
    pub ids: Vec<PermitId>,
    /// Makes a repeat idempotent.
    pub request_id: Option<RequestId>,
}

/// Leases to extend.
#[derive(Clone, Debug)]
pub struct RenewPermits {
    /// The semaphore.
    pub name: LockName,
    /// The holder.
    pub owner: Owner,
    /// The permits to renew; empty, in a session only: all of the owner's.
    pub ids: Vec<PermitId>,
    /// None: the grant's own lease in a session, otherwise the default lease.
    pub lease: Option<Lease>,
}

/// A size to give a semaphore.
#[derive(Clone, Debug)]
pub struct SetPermits {
    /// The semaphore.
    pub name: LockName,
    /// Permits in total.
    pub permits: u32,
    /// Leaves an existing semaphore as it is.
    pub only_if_absent: bool,
}

// === impl AcquirePermits ===

impl AcquirePermits {
    pub(crate) fn subject(&self) -> Subject<'_> {
        let counts = Counts::Grant(Kind::Permits);
        Subject::of(&self.name).by(&self.owner).counts(counts)
    }
}

// === impl PermitCount ===

impl PermitCount {
    /// Maximum per request. A script works on each permit, and nothing else runs in the store
    /// meanwhile.
    pub const MAX: u32 = 1000;

    /// Validates a number.
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
