//! What can be asked of a lock, already checked.

use std::time::Duration;

use lockkeeper_store::script::{Hold, Mode};

use crate::types::{Lease, LockName, Owner, RequestId};

/// A wish to hold a lock.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The lock.
    pub name: LockName,
    /// How to hold it.
    pub mode: Mode,
    /// Who wants it.
    pub owner: Owner,
    /// None: watched in a session, else the default lease.
    pub lease: Option<Lease>,
    /// None: without limit.
    pub wait: Option<Duration>,
    /// Makes a repeat safe.
    pub request_id: Option<RequestId>,
    /// Replicas that must acknowledge the grant and its renewals; the configuration may ask for
    /// more.
    pub min_replica_acks: u32,
}

/// A hold to give back.
#[derive(Clone, Debug)]
pub struct Release {
    /// The lock.
    pub name: LockName,
    /// How it is held.
    pub mode: Mode,
    /// Who holds it.
    pub owner: Owner,
    /// Makes a repeat safe.
    pub request_id: Option<RequestId>,
}

/// A lease to extend.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The lock.
    pub name: LockName,
    /// How it is held.
    pub mode: Mode,
    /// Who holds it.
    pub owner: Owner,
    /// None: the grant's own in a session, else the default lease.
    pub lease: Option<Lease>,
}

// === impl Acquire ===

impl Acquire {
    /// What it is to the scripts.
    pub(crate) fn hold(&self) -> Hold<'_> {
        Hold::new(self.name.as_str(), self.mode, self.owner.field())
    }
}
