//! The operations of a coordinator and their answers. RPCs and frames of a session's stream become
//! the same operations.

use crate::{
    error::Error,
    latch::{LatchAnswer, LatchOperation},
    lock::{
        delivery::Delivery,
        outcome::{Description, NotGranted, TokenChecked, Tried, Waiting},
        request::{Acquire, Release, Renew},
    },
    multi::{
        outcome::{ReleasedLock, TriedAll},
        request::{AcquireAll, ReleaseAll},
        undo::DeliveryAll,
    },
    semaphore::{outcome::PermitAnswer, request::PermitOperation},
    types::{Grant, LockName},
};

/// A validated operation.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Wait for a lock.
    Acquire(Acquire),
    /// Take a lock if it is free now; `wait` is not used.
    TryAcquire(Acquire),
    /// Wait for several locks.
    AcquireAll(AcquireAll),
    /// Take several locks if all are free now; `wait` is not used.
    TryAcquireAll(AcquireAll),
    /// Release one hold.
    Release(Release),
    /// Release one hold of each of several locks.
    ReleaseAll(ReleaseAll),
    /// Extend a lease.
    Renew(Renew),
    /// Describe a lock's holders and waiters.
    Describe(LockName),
    /// Check whether a token is the newest grant's.
    CheckToken(LockName, u64),
    /// A semaphore operation.
    Permits(PermitOperation),
    /// A latch operation.
    Latch(LatchOperation),
}

/// The answer to an operation. Every operation ends with exactly one answer that is not about a
/// wait.
#[derive(Debug)]
pub enum Answer {
    /// The wait goes on.
    Waiting(Waiting),
    /// The caller holds the lock once it takes this.
    Granted(Delivery),
    /// The wait ended without a grant.
    NotGranted(NotGranted),
    /// The outcome of a try.
    Tried(Tried),
    /// The wait for several locks goes on, now in the line of this one.
    WaitingForAll(LockName, Waiting),
    /// The caller holds the locks once it takes this.
    GrantedAll(DeliveryAll),
    /// The outcome of a try for several locks.
    TriedAll(TriedAll),
    /// The owner's remaining holds after a release.
    Released(u32),
    /// The release of each of several locks.
    ReleasedAll(Vec<ReleasedLock>),
    /// The grant with its new lease.
    Renewed(Grant),
    /// The lock's holders and waiters.
    Described(Description),
    /// The result of a token check.
    TokenChecked(TokenChecked),
    /// The answer of a semaphore operation.
    Permits(PermitAnswer),
    /// The answer of a latch operation.
    Latch(LatchAnswer),
    /// The operation has no outcome.
    Failed(Error),
}

// === impl Operation ===

impl Operation {
    /// For logs and task names.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Acquire(_) => "acquire",
            Self::TryAcquire(_) => "try_acquire",
            Self::AcquireAll(_) => "acquire_all",
            Self::TryAcquireAll(_) => "try_acquire_all",
            Self::Release(_) => "release",
            Self::ReleaseAll(_) => "release_all",
            Self::Renew(_) => "renew",
            Self::Describe(_) => "describe",
            Self::CheckToken(..) => "check_token",
            Self::Permits(operation) => operation.name(),
            Self::Latch(operation) => operation.name(),
        }
    }

    /// Whether it can be cancelled, because it may wait.
    pub fn waits(&self) -> bool {
        matches!(
            self,
            Self::Acquire(_)
                | Self::AcquireAll(_)
                | Self::Permits(PermitOperation::Acquire(_))
                | Self::Latch(LatchOperation::Await(_))
        )
    }
}
