//! Campaigning, proclaiming and resigning.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::Proclaimed;
use tokio::time::{Instant, sleep_until};

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
    yields::YieldRequested,
};

/// The pause before the first value of a term is proclaimed again.
const PROCLAIM_RETRY: Duration = Duration::from_millis(200);

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
    match proclaim_until(core, &first, safe_until, progress).await {
        Some(revision) => Ok(Ok(Elected {
            delivery,
            revision: revision?,
        })),
        None => Ok(Err(NotGranted::cancelled())),
    }
}

/// Proclaims the first value. If the store does not answer, that is repeated while the grant is
/// valid: the candidate has waited for it, and would lose its place. None if the caller has gone
/// away meanwhile.
async fn proclaim_until<P: Progress>(
    core: &Core,
    first: &Proclaim,
    safe_until: Instant,
    progress: &P,
) -> Option<Result<u64, Error>> {
    loop {
        let proclaimed = proclaim(core, first).await;
        let passes = match &proclaimed {
            Err(Error::Store(error)) => error.is_transient(),
            Ok(_) | Err(_) => false,
        };
        let retry = Instant::now() + PROCLAIM_RETRY;
        if !passes || retry >= safe_until {
            return Some(proclaimed);
        }
        tokio::select! {
            biased;
            () = progress.gone() => return None,
            () = core.draining.cancelled() => return Some(Err(Error::Draining)),
            () = sleep_until(retry) => {}
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
    core.request_yield(request.ask.clone()).await
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
