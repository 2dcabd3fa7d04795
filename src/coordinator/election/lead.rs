//! Campaigning, proclaiming and resigning.

use std::sync::Arc;

use lockkeeper_store::script::{CallError, Proclaimed};

use crate::{
    core::Core,
    election::{
        outcome::{Elected, LeaderSeen},
        request::{Campaign, Proclaim, Transfer},
    },
    error::Error,
    lock::{
        self,
        describe::{LISTED_MAX, inspect},
        outcome::NotGranted,
        request::{Acquire, Release},
    },
    progress::Progress,
    types::{LockName, Owner},
    wait::try_again,
    yields::YieldRequested,
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
    let safe_until = delivery.grant().safe_until;
    loop {
        let error = match proclaim(core, &first).await {
            Ok(revision) => return Ok(Ok(Elected { delivery, revision })),
            Err(error) => error,
        };
        if !try_again(core, progress, safe_until, error).await? {
            return Ok(Err(NotGranted::cancelled()));
        }
    }
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

/// Puts the candidate first in line, and asks the leader to yield.
pub(crate) async fn transfer(
    core: &Arc<Core>,
    request: &Transfer,
) -> Result<YieldRequested, Error> {
    core.scripts.check_elections()?;
    // Before the line changes: a refusal changes nothing.
    let counted = core.count_yield(&request.ask)?;
    let name = &request.ask.name;
    let seen = inspect(core, name, LISTED_MAX).await?;
    if request.to.is_empty() {
        // It would be taken from its leader for nobody.
        if seen.holder_count > 0 && seen.queue.is_empty() {
            return Err(Error::CandidateNotWaiting);
        }
    } else {
        let waiters = seen.queue.iter().filter_map(|it| str::from_utf8(it).ok());
        let mut waiters = waiters.map(Owner::from_field);
        let next = waiters.find(|waiter| request.is_to(waiter));
        let next = next.ok_or(Error::CandidateNotWaiting)?;
        if !core
            .scripts
            .fair_first(name.store_key(), next.field())
            .await?
        {
            return Err(Error::CandidateNotWaiting);
        }
    }
    let asked = core.request_counted_yield(request.ask.clone(), counted);
    asked.await.map_err(|error| match error {
        // The line has changed.
        Error::Store(CallError::Unavailable(why)) if !request.to.is_empty() => {
            CallError::OutcomeUnknown(why).into()
        }
        error => error,
    })
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
