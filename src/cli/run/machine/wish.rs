//! What the user wants to hold, and what is held of it.

use super::{Plan, Thing};
use crate::grpc::pb::{
    AcquireAllRequest, AcquirePermitsRequest, AcquireRequest, Grant, LockSpec,
    session_request::Request,
};

/// What to hold while the command runs; all of it or nothing.
#[derive(Clone, Debug)]
pub(in crate::cli::run) enum Wish {
    /// Locks, at least one; the first gives the command its fencing token.
    Locks(Vec<LockSpec>),
    /// Permits of a semaphore.
    Permits { name: String, permits: u32 },
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
