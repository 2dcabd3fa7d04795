//! What can be asked of a coordinator, and what it answers. RPCs and frames of a session's stream
//! become the same operations.

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

/// Something to do, already checked.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Wait for a lock.
    Acquire(Acquire),
    /// Take a lock if that can be done now; `wait` is not used.
    TryAcquire(Acquire),
    /// Wait for several locks.
    AcquireAll(AcquireAll),
    /// Take several locks if all can be had now; `wait` is not used.
    TryAcquireAll(AcquireAll),
    /// Give one hold back.
    Release(Release),
    /// Give one hold of each of several locks back.
    ReleaseAll(ReleaseAll),
    /// Extend a lease.
    Renew(Renew),
    /// Tell who holds a lock and who waits for it.
    Describe(LockName),
    /// Tell whether a token is the newest grant's.
    CheckToken(LockName, u64),
    /// Something with a semaphore.
    Permits(PermitOperation),
    /// Something with a latch.
    Latch(LatchOperation),
}

/// What is answered. Every operation ends with exactly one answer that is not about a wait.
#[derive(Debug)]
pub enum Answer {
    /// The wait goes on.
    Waiting(Waiting),
    /// The caller holds the lock as soon as it takes this.
    Granted(Delivery),
    /// The wait ended without a grant.
    NotGranted(NotGranted),
    /// What a try came to.
    Tried(Tried),
    /// The wait for several locks goes on: it is for this one.
    WaitingForAll(LockName, Waiting),
    /// The caller holds the locks as soon as it takes this.
    GrantedAll(DeliveryAll),
    /// What a try for several locks came to.
    TriedAll(TriedAll),
    /// Holds that the owner has left after a release.
    Released(u32),
    /// What became of each of several locks.
    ReleasedAll(Vec<ReleasedLock>),
    /// The grant with its new lease.
    Renewed(Grant),
    /// Who holds the lock, who waits.
    Described(Description),
    /// About a token.
    TokenChecked(TokenChecked),
    /// About a semaphore.
    Permits(PermitAnswer),
    /// About a latch.
    Latch(LatchAnswer),
    /// There is no outcome.
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

    /// Whether it can be cancelled because it may wait.
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
