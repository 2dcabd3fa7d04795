//! Renewals of permits requested by their owner.

use std::sync::Arc;

use lockkeeper_access::Counted;
use lockkeeper_store::script::{Ownership, PermitRenewal};
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    semaphore::request::RenewPermits,
    session::session::Session,
    types::{GrantKey, Holding, Invalid, Lease, PermitGrant, safe_until},
};

pub(crate) async fn renew(
    core: &Arc<Core>,
    request: &RenewPermits,
) -> Result<Vec<PermitGrant>, Error> {
    let RenewPermits {
        name, owner, lease, ..
    } = request;
    let session = core.session_of(owner)?;
    let held = held(core, request, session.as_deref())?;
    let own_lease = |grant: &PermitGrant| match &session {
        Some(session) if grant.watched => session.lease,
        _ => grant.lease,
    };
    let renewals = held.iter().map(|grant| PermitRenewal {
        name: name.shared(),
        owner: owner.shared_field(),
        lease: lease.map_or_else(|| own_lease(grant), Lease::get),
        ids: Arc::clone(&grant.ids),
    });
    let renewals: Vec<_> = renewals.collect();
    let min_replica_acks = held.iter().map(|grant| grant.min_replica_acks).max();
    let (scripts, acks) = core.replicated(min_replica_acks.unwrap_or(0));
    let sent_at = Instant::now();
    let outcomes = scripts.renew_permits(&renewals).await.complete()?;
    // A renewal known only to the master would be lost with it.
    let replica_acks = acks.acknowledged()?;
    let mut renewed = Vec::with_capacity(held.len());
    let mut gone = None;
    for (grant, outcome) in held.into_iter().zip(outcomes) {
        let key = GrantKey::of_permits(&grant);
        let outcome = match (outcome, &session) {
            (Ok(lease), None) => {
                let grant = PermitGrant {
                    lease,
                    safe_until: safe_until(sent_at, lease),
                    ..grant
                };
                core.sessionless.hold_permits(&grant, Counted::default());
                Ok(grant)
            }
            (Ok(lease), Some(session)) => session
                .renewed_by_client(&core.deadlines, (&key, grant.serial), sent_at, lease)
                .as_ref()
                .and_then(Holding::permits)
                .cloned()
                .ok_or(Ownership::Expired),
            (Err(ownership), session) => {
                if let Some(session) = session {
                    let which = (&key, grant.serial);
                    session.not_renewed_by_client(&core.deadlines, which, ownership.into());
                }
                Err(ownership)
            }
        };
        match outcome {
            Ok(grant) => renewed.push(PermitGrant {
                replica_acks,
                ..grant
            }),
            Err(ownership) => gone = Some(ownership),
        }
    }
    match gone {
        Some(ownership) => Err(Error::NotOwner(ownership)),
        None => Ok(renewed),
    }
}

/// The grants to renew. Without a session the named permits serve as one grant; only their owner
/// knows the actual ones.
fn held(
    core: &Core,
    request: &RenewPermits,
    session: Option<&Session>,
) -> Result<Vec<PermitGrant>, Error> {
    let RenewPermits {
        name, owner, ids, ..
    } = request;
    let Some(session) = session else {
        if ids.is_empty() {
            let why = "must name the permits if there is no session_id";
            return Err(Invalid::new("permit_ids", why).into());
        }
        return Ok(vec![PermitGrant {
            name: name.clone(),
            owner: owner.clone(),
            ids: ids.clone().into(),
            serial: 0,
            lease: core.config.lease,
            safe_until: Instant::now(),
            watched: false,
            replica_acks: 0,
            min_replica_acks: 0,
        }]);
    };
    let held = session.permits_of(name, owner, ids);
    let known = |id| held.iter().any(|grant| grant.ids.contains(id));
    // After `permits_lost` there is no renewal, even if the store still has the permits.
    if held.is_empty() || !ids.iter().all(known) {
        return Err(Error::NotOwner(Ownership::Expired));
    }
    Ok(held)
}
