//! What can be asked of several locks, already checked.

use std::time::Duration;

use crate::{
    lock::request::Acquire,
    multi::locks::Locks,
    types::{Lease, Owner, RequestId},
};

/// A wish to hold several locks.
#[derive(Clone, Debug)]
pub struct AcquireAll {
    /// The locks.
    pub locks: Locks,
    /// Who wants them.
    pub owner: Owner,
    /// None: watched in a session, else the default lease.
    pub lease: Option<Lease>,
    /// For all of them together; none: without limit.
    pub wait: Option<Duration>,
    /// Makes a repeat safe.
    pub request_id: Option<RequestId>,
    /// As of [`Acquire`].
    pub min_replica_acks: u32,
}

/// Holds of several locks to give back.
#[derive(Clone, Debug)]
pub struct ReleaseAll {
    /// The locks.
    pub locks: Locks,
    /// Who holds them.
    pub owner: Owner,
    /// Makes a repeat safe.
    pub request_id: Option<RequestId>,
}

// === impl AcquireAll ===

impl AcquireAll {
    /// The wish to hold one of the locks, as long as that may be waited for.
    pub(crate) fn member(&self, which: usize, wait: Option<Duration>) -> Acquire {
        let (name, mode) = self.locks.get(which);
        Acquire {
            name: name.clone(),
            mode,
            owner: self.owner.clone(),
            lease: self.lease,
            wait,
            request_id: self.request_id.clone(),
            min_replica_acks: self.min_replica_acks,
        }
    }
}
