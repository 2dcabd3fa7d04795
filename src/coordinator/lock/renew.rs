//! Renewals requested by an owner, and token checks.

use std::sync::Arc;

use lockkeeper_access::Counted;
use lockkeeper_store::script::{CallError, Ownership, Renewal};
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    lock::{
        outcome::TokenChecked,
        request::{CheckToken, Renew},
    },
    session::session::Session,
    types::{Grant, GrantKey, Lease, LockName, safe_until},
};

pub(crate) async fn renew(core: &Arc<Core>, request: &Renew) -> Result<Grant, Error> {
    let Renew {
        name,
        mode,
        owner,
        lease,
    } = request;
    let session = core.session_of(owner)?;
    let key = GrantKey::new(name, *mode, &owner.label);
    let held = session.as_ref().and_then(|session| session.grant(&key));
    // After `lost` there is no `renewed`, even if the store still has the hold.
    if let (Some(session), None) = (&session, &held) {
        return Err(not_held(core, session, request).await);
    }
    let own_lease = || core.lease_of_held(session.as_ref(), held.as_ref());
    let renewal = Renewal {
        name: name.shared(),
        mode: *mode,
        owner: (held.as_ref()).map_or_else(|| owner.shared_field(), Grant::shared_field),
        lease: lease.map_or_else(own_lease, Lease::get),
        noted: false,
    };
    let min_replica_acks = held.as_ref().map_or(0, |held| held.min_replica_acks);
    let (scripts, acks) = core.replicated(min_replica_acks);
    let sent_at = Instant::now();
    let renewals = scripts.renew(std::slice::from_ref(&renewal)).await;
    let renewed = match renewals.complete()?.first() {
        Some(Ok(renewed)) => *renewed,
        Some(Err(ownership)) => {
            if let (Some(session), Some(held)) = (&session, &held) {
                let reason = core.why_lost(session, &key, *ownership).await;
                session.not_renewed_by_client(&core.deadlines, (&key, held.serial), reason);
            }
            return Err(Error::NotOwner(*ownership));
        }
        None => return Err(CallError::Refused("a renewal without outcome".to_owned()).into()),
    };
    // A renewal known only to the master would be lost with it.
    let replica_acks = acks.acknowledged()?;
    let (Some(session), Some(held)) = (session, held) else {
        let grant = Grant {
            name: name.clone(),
            mode: *mode,
            owner: owner.clone(),
            field: None,
            hold_count: renewed.hold_count,
            fencing_token: renewed.token,
            serial: renewed.serial,
            lease: renewed.lease,
            safe_until: safe_until(sent_at, renewed.lease),
            watched: false,
            replica_acks,
            min_replica_acks,
            note: None,
        };
        core.sessionless.hold(&grant, Counted::default());
        return Ok(grant);
    };
    session
        .renewed_by_client(&core.deadlines, (&key, held.serial), sent_at, renewed.lease)
        .and_then(|holding| holding.lock().cloned())
        .map(|grant| Grant {
            replica_acks,
            ..grant
        })
        .ok_or(Error::NotOwner(Ownership::Expired))
}

pub(crate) async fn check_token(core: &Core, request: &CheckToken) -> Result<TokenChecked, Error> {
    let seen = core.scripts.inspect(request.name.store_key(), 0).await?;
    Ok(TokenChecked {
        current: request.token != 0 && request.token == seen.token,
        last: seen.token,
        held: seen.holder_count > 0,
    })
}

/// Why a session cannot renew a grant that it does not have.
async fn not_held(core: &Core, session: &Session, request: &Renew) -> Error {
    if session.holds_in_any_mode(&request.name, &request.owner.label) {
        return Error::NotOwner(Ownership::HeldInAnotherMode);
    }
    let ownership = core.ownership(&request.name).await;
    ownership.map_or_else(Error::from, Error::NotOwner)
}

impl Session {
    fn holds_in_any_mode(&self, name: &LockName, label: &str) -> bool {
        let state = self.state.lock();
        let mut of_name = state.grants.of_name(name);
        of_name.any(|(key, held)| *key.label == *label && held.grant.lock().is_some())
    }
}

impl Core {
    /// What the store knows of a lock that the caller does not hold.
    pub(crate) async fn ownership(&self, name: &LockName) -> Result<Ownership, CallError> {
        let seen = self.scripts.inspect(name.store_key(), 0).await?;
        Ok(match (seen.holder_count, seen.token) {
            (0, 0) => Ownership::NeverHeld,
            (0, _) => Ownership::Expired,
            _ => Ownership::HeldByAnother,
        })
    }
}

#[cfg(test)]
#[path = "renew_tests.rs"]
mod tests;
