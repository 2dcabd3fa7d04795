//! What the user wants to hold, and what is held of it.

use std::time::Duration;

use super::Plan;
use crate::grpc::pb::{
    AcquireAllRequest, AcquirePermitsRequest, AcquireRequest, Grant, LockSpec, PermitGrant,
    RenewPermitsRequest, RenewRequest, SessionOpened, session_request::Request,
};

/// What to hold while the command runs; all of it or nothing.
#[derive(Clone, Debug)]
pub(in crate::cli::run) enum Wish {
    /// Locks, at least one; the first gives the command its fencing token.
    Locks(Vec<LockSpec>),
    /// Permits of a semaphore.
    Permits { name: String, permits: u32 },
}

/// One thing that is held, renewed and lost by itself.
#[derive(Clone, Debug)]
pub(super) enum Thing {
    Lock(Grant),
    Permits(PermitGrant),
}

// === impl Wish ===

impl Wish {
    /// For messages.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Locks(locks) => {
                let names: Vec<&str> = locks.iter().map(|lock| lock.name.as_str()).collect();
                names.join(", ")
            }
            Self::Permits { name, .. } => name.clone(),
        }
    }

    /// Names and fencing tokens of the locks that are held, the first of the wish first.
    pub(super) fn tokens<'a>(&self, held: impl Iterator<Item = &'a Thing>) -> Vec<(String, u64)> {
        let first = match self {
            Self::Locks(locks) => locks.first().map(|lock| lock.name.as_str()),
            Self::Permits { .. } => None,
        };
        let locks = held.filter_map(Thing::lock);
        let token = |grant: &Grant| (grant.name.clone(), grant.fencing_token);
        let mut tokens: Vec<_> = locks.map(token).collect();
        tokens.sort_by_key(|(name, _)| Some(name.as_str()) != first);
        tokens
    }
}

// === impl Plan ===

impl Plan {
    /// What to ask for.
    pub(super) fn request(&self, wait_timeout: Option<prost_types::Duration>) -> Request {
        let min_replica_acks = self.min_replica_acks;
        match &self.wish {
            Wish::Locks(locks) => match locks.as_slice() {
                [lock] => Request::Acquire(AcquireRequest {
                    name: lock.name.clone(),
                    mode: lock.mode,
                    wait_timeout,
                    min_replica_acks,
                    ..AcquireRequest::default()
                }),
                locks => Request::AcquireAll(AcquireAllRequest {
                    locks: locks.to_vec(),
                    wait_timeout,
                    min_replica_acks,
                    ..AcquireAllRequest::default()
                }),
            },
            Wish::Permits { name, permits } => Request::AcquirePermits(AcquirePermitsRequest {
                name: name.clone(),
                permits: *permits,
                wait_timeout,
                min_replica_acks,
                ..AcquirePermitsRequest::default()
            }),
        }
    }
}

// === impl Thing ===

impl Thing {
    /// All that a resumed session still has.
    pub(super) fn resumed(opened: &SessionOpened) -> Vec<Self> {
        let locks = opened.grants.iter().cloned().map(Self::Lock);
        let permits = opened.permits.iter().cloned().map(Self::Permits);
        locks.chain(permits).collect()
    }

    pub(super) fn lock(&self) -> Option<&Grant> {
        match self {
            Self::Lock(grant) => Some(grant),
            Self::Permits(_) => None,
        }
    }

    pub(super) fn permits(&self) -> Option<&PermitGrant> {
        match self {
            Self::Lock(_) => None,
            Self::Permits(grant) => Some(grant),
        }
    }

    /// For messages.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Lock(grant) => format!("the lock {}", grant.name),
            Self::Permits(grant) => format!("the permits of {}", grant.name),
        }
    }

    pub(super) fn lease(&self) -> Duration {
        to_std(match self {
            Self::Lock(grant) => grant.lease,
            Self::Permits(grant) => grant.lease,
        })
    }

    pub(super) fn valid_for(&self) -> Duration {
        to_std(match self {
            Self::Lock(grant) => grant.valid_for,
            Self::Permits(grant) => grant.valid_for,
        })
    }

    /// Whether both are the same grant, as it was known at two times. Within a session the name and the owner tell of a lock; the store may have
    /// forgotten the token.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lock(one), Self::Lock(two)) => one.name == two.name && one.owner == two.owner,
            (Self::Permits(one), Self::Permits(two)) => {
                let shared = |id| two.permit_ids.contains(id);
                one.permit_ids.iter().any(shared)
            }
            _ => false,
        }
    }

    /// What renews it.
    pub(super) fn renewal(&self) -> Request {
        match self {
            Self::Lock(grant) => Request::Renew(RenewRequest {
                name: grant.name.clone(),
                owner: grant.owner.clone(),
                mode: grant.mode,
                ..RenewRequest::default()
            }),
            Self::Permits(grant) => Request::RenewPermits(RenewPermitsRequest {
                name: grant.name.clone(),
                owner: grant.owner.clone(),
                permit_ids: grant.permit_ids.clone(),
                ..RenewPermitsRequest::default()
            }),
        }
    }
}

fn to_std(duration: Option<prost_types::Duration>) -> Duration {
    let duration = duration.and_then(|duration| duration.try_into().ok());
    duration.unwrap_or_default()
}
