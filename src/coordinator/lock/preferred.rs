//! Waiters that are preferred: each comes first, and the holder is asked to release the lock.

use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    admin::Reason,
    core::Core,
    error::Error,
    lock::request::{Acquire, PREFERRED},
    types::HolderKnown,
    yields::RequestYield,
};

const REASON: &str = "a preferred candidate waits";

/// Begins to make the waiter the first in line, and to ask the holder to release the lock, unless
/// the holder is preferred too. Goes on in the background until it is done or the guard is dropped.
pub(super) fn prefer(core: &Arc<Core>, request: &Acquire, holder: &HolderKnown) -> DropGuard {
    let over = CancellationToken::new();
    let ends = over.clone().drop_guard();
    let note = holder.note.as_ref();
    let asks = note.is_none_or(|note| !note.labels.contains_key(PREFERRED));
    let (core, request) = (Arc::clone(core), request.clone());
    core.tasks.clone().spawn("prefer", async move {
        let work = over.run_until_cancelled(come_first(&core, &request, asks));
        if let Some(Err(error)) = work.await {
            tracing::debug!(%error, name = %request.name, "a waiter was not preferred");
        }
    });
    ends
}

async fn come_first(core: &Arc<Core>, request: &Acquire, asks: bool) -> Result<(), Error> {
    let (name, owner) = (&request.name, &request.owner);
    let first = || core.scripts.fair_first(name.store_key(), owner.field());
    let at_most = core.scripts.config().fair_waiter_timeout;
    if core.until_answered(at_most, first).await != Some(true) || !asks {
        return Ok(());
    }
    let identity = request.account.identity();
    let by = if identity.is_anonymous() {
        core.client_name(owner)
    } else {
        identity.as_str().to_owned()
    };
    let ask = RequestYield {
        name: name.clone(),
        by,
        reason: Reason::parse(REASON)?,
        within: RequestYield::within(None)?,
        preempt: None,
        for_owner: Some(owner.clone()),
        account: request.account.clone(),
    };
    core.request_yield(ask).await.map(drop)
}
