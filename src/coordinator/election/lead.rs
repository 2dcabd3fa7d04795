//! Campaigning, proclaiming and resigning.

use std::sync::Arc;

use lockkeeper_store::script::Proclaimed;

use crate::{
    core::Core,
    election::{
        outcome::{Elected, LeaderSeen},
        request::{Campaign, Proclaim},
    },
    error::Error,
    lock::{
        self,
        outcome::NotGranted,
        request::{Acquire, Release},
    },
    progress::Progress,
    types::LockName,
};

/// Waits for the lock and proclaims the first value. If that fails, the lock is given back.
pub(crate) async fn campaign<P: Progress>(
    core: &Arc<Core>,
    request: &Campaign,
    progress: &mut P,
) -> Result<Result<Elected, NotGranted>, Error> {
    core.scripts.check_elections()?;
    let acquire = Acquire {
        wait: request.wait,
        ..request.acquire.clone()
    };
    let delivery = match lock::acquire::acquire(core, &acquire, progress).await? {
        Ok(delivery) => delivery,
        Err(ended) => return Ok(Err(ended)),
    };
    let first = Proclaim {
        name: acquire.name,
        owner: acquire.owner,
        term: delivery.grant().fencing_token,
        value: request.value.clone(),
    };
    let revision = proclaim(core, &first).await?;
    Ok(Ok(Elected { delivery, revision }))
}

/// Returns the revision.
pub(crate) async fn proclaim(core: &Core, request: &Proclaim) -> Result<u64, Error> {
    core.session_of(&request.owner)?;
    let (name, owner) = (request.name.store_key(), request.owner.field());
    let client_name = core.client_name(&request.owner);
    let value = request.value.as_str();
    let proclaimed = core
        .scripts
        .proclaim(name, owner, request.term, &client_name, value);
    match proclaimed.await? {
        Proclaimed::Done(revision) => {
            core.hint_election(&request.name);
            Ok(revision)
        }
        Proclaimed::NotLeader(ownership) => Err(Error::NotOwner(ownership)),
    }
}

/// Releases one hold. Answers with the remaining holds.
pub(crate) async fn resign(core: &Arc<Core>, request: &Release) -> Result<u32, Error> {
    core.scripts.check_elections()?;
    let left = lock::release::release(core, request).await?;
    core.hint_election(&request.name);
    Ok(left)
}

/// Who leads.
pub(crate) async fn leader(core: &Core, name: &LockName) -> Result<LeaderSeen, Error> {
    let mut seen = core
        .scripts
        .inspect_election(name.store_key(), None)
        .await?;
    let newest = seen.recorded.pop().filter(|_| seen.leads);
    Ok(LeaderSeen {
        remaining: newest.as_ref().and(seen.remaining),
        leader: newest.map(Into::into),
    })
}
