//! Semaphores: what can be asked, and what is answered.

pub(crate) mod acquire;
pub(crate) mod attempt;
pub(crate) mod books;
pub(crate) mod release;
pub(crate) mod renew;

pub use attempt::PermitDelivery;

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use lockkeeper_store::script::{PermitId, PermitsSet};

use crate::{
    Core,
    describe::LISTED_MAX,
    error::Error,
    operation::{Answer, Reply},
    permits::attempt::{Attempted, attempt},
    types::{Goal, Lease, LockName, Owner, PermitGrant, RequestId},
};

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
    /// As of [`super::Acquire`].
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

/// What is answered.
#[derive(Debug)]
pub enum PermitAnswer {
    /// The wait goes on.
    Waiting(WaitingForPermits),
    /// The caller holds the permits as soon as it takes this.
    Granted(PermitDelivery),
    /// The wait ended without a grant.
    NotGranted(PermitsNotGranted),
    /// The try succeeded: the caller holds the permits as soon as it takes this.
    Acquired(PermitDelivery),
    /// Too few were free for the try.
    Busy {
        /// So many.
        available: u32,
    },
    /// Permits were given back.
    Released {
        /// How many.
        permits: u32,
        /// Permits that are free now.
        available: u32,
    },
    /// The grants with their new leases.
    Renewed(Vec<PermitGrant>),
    /// The semaphore has this size.
    Set(PermitsSet),
    /// How many permits there are, who holds them, who waits.
    Described(SemaphoreDescription),
}

/// The state of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingForPermits {
    /// 1 is the next to try at this coordinator.
    pub position: u32,
    /// Permits that were free when the store was last asked.
    pub available: u32,
    /// When the next lease of a taken permit ends; none if none ever does.
    pub next_end: Option<Instant>,
}

/// A wait that ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitsNotGranted {
    /// Cancelled by the caller; otherwise its time ran out.
    pub cancelled: bool,
    /// Permits that were free when the store was last asked.
    pub available: u32,
}

/// A semaphore as it was when the store was asked.
#[derive(Clone, Debug)]
pub struct SemaphoreDescription {
    /// The semaphore.
    pub name: LockName,
    /// Permits in all; 0 if there is no semaphore.
    pub total: u32,
    /// Permits that are free; negative if more are taken than there are.
    pub available: i64,
    /// The first who hold permits.
    pub holders: Vec<PermitHolderSeen>,
    /// How many owners hold permits.
    pub holder_count: usize,
    /// The first who wait at this coordinator.
    pub waiters: Vec<PermitWaiterSeen>,
    /// How many wait at this coordinator.
    pub waiter_count: usize,
}

/// An owner that holds permits.
#[derive(Clone, Debug)]
pub struct PermitHolderSeen {
    /// Who; none for all that Redisson clients hold.
    pub owner: Option<Owner>,
    /// How many.
    pub permits: u32,
    /// What is left of the longest lease; none if it never ends.
    pub remaining: Option<Duration>,
    /// The session's name, if it is connected here.
    pub client_name: String,
}

/// A call that waits for permits.
#[derive(Clone, Debug)]
pub struct PermitWaiterSeen {
    /// Who.
    pub owner: Owner,
    /// The session's name, if it is connected here.
    pub client_name: String,
    /// Since when.
    pub since: Instant,
}

/// Runs an operation to its end.
pub(super) async fn run(
    core: &Arc<Core>,
    operation: &PermitOperation,
    reply: &mut Reply,
) -> Result<Answer, Error> {
    let answer = match operation {
        PermitOperation::Acquire(request) => Box::pin(acquire::acquire(core, request, reply)).await,
        PermitOperation::TryAcquire(request) => try_acquire(core, request).await,
        PermitOperation::Release(request) => release::release(core, request).await,
        PermitOperation::Renew(request) => renew::renew(core, request).await,
        PermitOperation::Set(request) => set(core, request).await,
        PermitOperation::Describe(name) => describe(core, name).await,
    };
    answer.map(Answer::Permits)
}

async fn try_acquire(core: &Arc<Core>, request: &AcquirePermits) -> Result<PermitAnswer, Error> {
    if core.draining.is_cancelled() {
        return Err(Error::Draining);
    }
    let record_refusal = request.request_id.is_some();
    Ok(match attempt(core, request, record_refusal).await? {
        Attempted::Granted(delivery) => PermitAnswer::Acquired(delivery),
        Attempted::Busy { available, .. } => PermitAnswer::Busy { available },
    })
}

async fn set(core: &Core, request: &SetPermits) -> Result<PermitAnswer, Error> {
    let SetPermits {
        name,
        permits,
        only_if_absent,
    } = request;
    let set = core
        .scripts
        .set_permits(name.as_str(), *permits, *only_if_absent)
        .await?;
    Ok(PermitAnswer::Set(set))
}

async fn describe(core: &Core, name: &LockName) -> Result<PermitAnswer, Error> {
    let seen = look(core, name, LISTED_MAX as usize).await?;
    Ok(PermitAnswer::Described(seen))
}

/// At most so many holders and waiters.
pub(super) async fn look(
    core: &Core,
    name: &LockName,
    listed_max: usize,
) -> Result<SemaphoreDescription, Error> {
    let seen = core.scripts.inspect_semaphore(name.as_str()).await?;
    let (waiters, waiter_count) = core.waiters.list_for(name, Goal::Permits, listed_max);
    let holders = seen.holders.iter().take(listed_max).map(|holder| {
        let owner = (!holder.owner.is_empty())
            .then(|| Owner::from_field(&String::from_utf8_lossy(&holder.owner)));
        PermitHolderSeen {
            client_name: owner
                .as_ref()
                .map_or_else(String::new, |owner| core.client_name(owner)),
            owner,
            permits: holder.permits,
            remaining: holder.remaining,
        }
    });
    let waiters = waiters.iter().map(|waiter| PermitWaiterSeen {
        client_name: core.client_name(&waiter.owner),
        owner: waiter.owner.clone(),
        since: waiter.since,
    });
    Ok(SemaphoreDescription {
        name: name.clone(),
        total: seen.total,
        available: seen.available,
        holders: holders.collect(),
        holder_count: seen.holders.len(),
        waiters: waiters.collect(),
        waiter_count,
    })
}

// === impl PermitOperation ===

impl PermitOperation {
    /// For logs and task names.
    pub(super) fn name(&self) -> &'static str {
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
    pub fn new(permits: u32) -> Result<Self, super::Invalid> {
        if !(1..=Self::MAX).contains(&permits) {
            let why = format!("must be from 1 to {}, is {permits}", Self::MAX);
            return Err(super::Invalid::new("permits", why));
        }
        Ok(Self(permits))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0
    }
}
