//! Runs semaphore operations.

use std::sync::Arc;

use crate::{
    core::Core,
    error::Error,
    lock::describe::LISTED_MAX,
    progress::Progress,
    semaphore::{
        acquire::acquire,
        attempt::{Attempted, attempt},
        outcome::{PermitAnswer, PermitHolderSeen, PermitWaiterSeen, SemaphoreDescription},
        release::release,
        renew::renew,
        request::{AcquirePermits, PermitOperation, SetPermits},
    },
    types::{Goal, LockName, Owner},
};

/// Runs an operation to its end.
pub(crate) async fn run<P: Progress>(
    core: &Arc<Core>,
    operation: &PermitOperation,
    progress: &mut P,
) -> Result<PermitAnswer, Error> {
    match operation {
        PermitOperation::Acquire(request) => Box::pin(acquire(core, request, progress)).await,
        PermitOperation::TryAcquire(request) => try_acquire(core, request).await,
        PermitOperation::Release(request) => release(core, request).await,
        PermitOperation::Renew(request) => renew(core, request).await,
        PermitOperation::Set(request) => set(core, request).await,
        PermitOperation::Describe(name) => describe(core, name).await,
    }
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
    let seen = look(core, name, LISTED_MAX as usize, u32::MAX).await?;
    Ok(PermitAnswer::Described(seen))
}

/// Lists at most `listed_max` holders and as many waiters; the holders are those of at most
/// `permits_max` permits.
pub(crate) async fn look(
    core: &Core,
    name: &LockName,
    listed_max: usize,
    permits_max: u32,
) -> Result<SemaphoreDescription, Error> {
    let (scripts, inspected) = (core.scripts.clone(), name.clone());
    let read = || async move {
        let name = inspected.as_str();
        scripts.inspect_semaphore(name, permits_max).await
    };
    let seen = core.semaphore_looks.ask(name, permits_max, read).await?;
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
