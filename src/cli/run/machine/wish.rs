//! What the user wants to hold, and what is held of it.

use std::time::Duration;

use crate::grpc::pb::{
    AcquireAllRequest, AcquireRequest, Grant, LockSpec, RenewRequest, SessionOpened,
    session_request::Request,
};

/// What to hold while the command runs; all of it or nothing.
#[derive(Clone, Debug)]
pub(in crate::cli::run) enum Wish {
    /// Locks, at least one; the first gives the command its fencing token.
    Locks(Vec<LockSpec>),
}

/// One thing that is held, renewed and lost by itself.
#[derive(Clone, Debug)]
pub(super) enum Thing {
    Lock(Grant),
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
        }
    }

    /// What to ask for.
    pub(super) fn request(&self, wait_timeout: Option<prost_types::Duration>) -> Request {
        match self {
            Self::Locks(locks) => match locks.as_slice() {
                [lock] => Request::Acquire(AcquireRequest {
                    name: lock.name.clone(),
                    mode: lock.mode,
                    wait_timeout,
                    ..AcquireRequest::default()
                }),
                locks => Request::AcquireAll(AcquireAllRequest {
                    locks: locks.to_vec(),
                    wait_timeout,
                    ..AcquireAllRequest::default()
                }),
            },
        }
    }

    /// Names and fencing tokens of what is held, the first lock of the wish first.
    pub(super) fn tokens<'a>(&self, held: impl Iterator<Item = &'a Thing>) -> Vec<(String, u64)> {
        let Self::Locks(locks) = self;
        let first = locks.first().map(|lock| lock.name.as_str());
        let token = |Thing::Lock(grant): &Thing| (grant.name.clone(), grant.fencing_token);
        let mut tokens: Vec<_> = held.map(token).collect();
        tokens.sort_by_key(|(name, _)| Some(name.as_str()) != first);
        tokens
    }
}

// === impl Thing ===

impl Thing {
    /// All that a resumed session still has.
    pub(super) fn resumed(opened: &SessionOpened) -> Vec<Self> {
        opened.grants.iter().cloned().map(Self::Lock).collect()
    }

    /// For messages.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Lock(grant) => format!("the lock {}", grant.name),
        }
    }

    pub(super) fn lease(&self) -> Duration {
        let Self::Lock(grant) = self;
        let lease = grant.lease.and_then(|lease| lease.try_into().ok());
        lease.unwrap_or_default()
    }

    pub(super) fn valid_for(&self) -> Duration {
        let Self::Lock(grant) = self;
        let valid_for = grant.valid_for.and_then(|it| it.try_into().ok());
        valid_for.unwrap_or_default()
    }

    /// Whether both are the same grant, as it was known at two times. Within a session the name and the owner tell; the store may have forgotten the
    /// token.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Lock(one), Self::Lock(two)) => one.name == two.name && one.owner == two.owner,
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
        }
    }
}
