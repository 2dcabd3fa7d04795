//! Describes the holders and waiters of a lock.

use std::collections::HashMap;

use lockkeeper_store::script::{CallError, Holder, Inspected, Mode};

use crate::{
    core::Core,
    error::Error,
    lock::outcome::{Description, HolderSeen, WaiterSeen},
    types::{Goal, LockName, Owner},
};

/// Maximum of holders and of waiters listed in a description; the others are only counted.
pub(crate) const LISTED_MAX: u32 = 1000;

pub(crate) async fn describe(core: &Core, name: &LockName) -> Result<Description, Error> {
    look(core, name, LISTED_MAX).await
}

/// Lists at most `max` holders and `max` waiters.
pub(crate) async fn look(core: &Core, name: &LockName, max: u32) -> Result<Description, Error> {
    let seen = inspect(core, name, max).await?;
    Ok(described(core, name, &seen, max as usize))
}

/// What the store has shown, and what is known here; lists at most `max` waiters that wait here.
pub(crate) fn described(core: &Core, name: &LockName, seen: &Inspected, max: usize) -> Description {
    let holders = seen.holders.iter();
    let holders = holders.map(|holder| holder_seen(core, name, holder));
    let (local, local_count) = core.waiters.list(name, max);
    let since: HashMap<&str, _> = local
        .iter()
        .filter(|waiter| waiter.goal == Goal::Lock(Mode::Fair))
        .map(|waiter| (waiter.owner.field(), waiter.since))
        .collect();
    let queued = seen.queue.iter().map(|field| {
        let owner = owner_of(field);
        WaiterSeen {
            client_name: core.client_name(&owner),
            since: since.get(owner.field()).copied(),
            owner,
            mode: Mode::Fair,
        }
    });
    let others = local.iter().filter_map(|waiter| match waiter.goal {
        Goal::Lock(Mode::Fair) | Goal::Permits | Goal::Latch => None,
        Goal::Lock(mode) => Some(WaiterSeen {
            client_name: core.client_name(&waiter.owner),
            owner: waiter.owner.clone(),
            mode,
            since: Some(waiter.since),
        }),
    });
    Description {
        name: name.clone(),
        mode: seen.mode,
        holders: holders.collect(),
        holder_count: seen.holder_count,
        remaining: seen.remaining,
        fencing_token: seen.token,
        waiters: queued.chain(others).collect(),
        waiter_count: seen.queue_len + local_count,
    }
}

/// What the store shows now; the read is shared with others who ask for it.
pub(crate) async fn inspect(
    core: &Core,
    name: &LockName,
    max: u32,
) -> Result<Inspected, CallError> {
    let (scripts, inspected) = (core.scripts.clone(), name.clone());
    let read = || async move { scripts.inspect(inspected.store_key(), max).await };
    core.lock_looks.ask(name, max, read).await
}

/// A holder that the store has named.
pub(crate) fn holder_seen(core: &Core, name: &LockName, holder: &Holder) -> HolderSeen {
    let owner = owner_of(&holder.owner);
    HolderSeen {
        client_name: core.client_name(&owner),
        since: core.holds_since(name, Some(holder.mode), &owner),
        owner,
        mode: holder.mode,
        hold_count: holder.hold_count,
        remaining: holder.remaining,
        note: holder.note.clone(),
    }
}

/// Another program may have put any bytes there; the output must be text.
fn owner_of(field: &[u8]) -> Owner {
    Owner::from_field(&String::from_utf8_lossy(field))
}
