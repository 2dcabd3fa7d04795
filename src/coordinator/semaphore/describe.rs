//! The size of a semaphore, and descriptions of its holders and waiters.

use lockkeeper_store::script::PermitsSet;

use crate::{
    core::Core,
    error::Error,
    lock::describe::LISTED_MAX,
    semaphore::{
        outcome::{PermitHolderSeen, PermitWaiterSeen, SemaphoreDescription},
        request::SetPermits,
    },
    types::{Goal, LockName, Owner},
};

pub(crate) async fn set(core: &Core, request: &SetPermits) -> Result<PermitsSet, Error> {
    let SetPermits {
        name,
        permits,
        only_if_absent,
    } = request;
    let set = core
        .scripts
        .set_permits(name.store_key(), *permits, *only_if_absent);
    Ok(set.await?)
}

pub(crate) async fn describe(core: &Core, name: &LockName) -> Result<SemaphoreDescription, Error> {
    look(core, name, LISTED_MAX as usize, u32::MAX).await
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
        let name = inspected.store_key();
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
            since: owner
                .as_ref()
                .and_then(|owner| core.holds_since(name, None, owner)),
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
