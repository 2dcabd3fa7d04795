//! One attempt to take several locks with one script.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Counted;
use lockkeeper_store::script::{AcquiredAll, AttemptAll, CallError, MemberGrant, Refusal};
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    core::Core,
    error::Error,
    events::{Event, What},
    multi::{
        identity::{Identity, Known},
        locks::Locks,
        request::AcquireAll,
        undo::{DeliveryAll, UndoAll},
    },
    owner_lock::OwnerLock,
    repeat::expect_valid,
    session::session::Session,
    types::{Grant, GrantKey, HolderKnown, Owner, safe_until},
};

/// The outcome of an attempt.
pub(crate) enum AttemptedAll {
    Granted(DeliveryAll),
    Busy {
        /// A lock that another owner holds.
        which: usize,
        /// What is known of that holder.
        holder: HolderKnown,
    },
}

/// What an attempt knows before it calls the store.
struct Prepared {
    identity: Identity,
    known: Vec<Known>,
    session: Option<Arc<Session>>,
    /// Kept until the outcome is known.
    owner_locks: Vec<OwnerLock>,
    lease: Duration,
    /// The new grants' use of the caller's quota, until they are registered.
    reserved: Counted,
}

/// The store's answer to a granted attempt.
struct GrantedMembers {
    grants: Vec<MemberGrant>,
    sent_at: Instant,
    repeated: bool,
    replica_acks: u32,
}

/// Makes one attempt. Must run to its end: it registers its grants or undoes them.
pub(crate) async fn attempt_all(
    core: &Arc<Core>,
    request: &AcquireAll,
    refusal: Refusal,
) -> Result<AttemptedAll, Error> {
    let prepared = prepare(core, request).await?;
    let (scripts, acks) = core.replicated(request.min_replica_acks);
    let sent_at = Instant::now();
    let identity = &prepared.identity;
    let acquired = {
        let members = identity.members(&prepared.known);
        let members = identity.script_members(&members);
        let attempt = AttemptAll {
            note: request.note.as_deref(),
            ..identity.attempt()
        };
        scripts
            .acquire_all(members, prepared.lease, attempt, refusal)
            .await
    };
    match acquired {
        Ok(AcquiredAll::Granted { grants, repeated }) => {
            let granted = GrantedMembers {
                grants,
                sent_at,
                repeated,
                replica_acks: acks.achieved().unwrap_or(0),
            };
            if let Err(error) = acks.acknowledged() {
                let taken = prepared.knowing(&granted.grants);
                let undo = (!repeated).then(|| undo_attempt(core, taken));
                return Err(core.not_replicated(error, undo).await);
            }
            deliver(core, request, prepared, &granted).map(AttemptedAll::Granted)
        }
        Ok(AcquiredAll::Busy {
            which,
            remaining,
            note,
        }) => Ok(AttemptedAll::Busy {
            which,
            holder: HolderKnown::of(remaining, note),
        }),
        Ok(AcquiredAll::Refused { which, why }) => {
            Err(Error::Store(why).of(request.locks.name(which)))
        }
        Err(error) => {
            if error.may_have_changed() {
                undo_attempt(core, prepared);
            }
            Err(error.into())
        }
    }
}

/// Undoes an attempt that may have run, before any later operation of its owner.
fn undo_attempt(core: &Arc<Core>, prepared: Prepared) -> JoinHandle<()> {
    let core = Arc::clone(core);
    core.tasks.clone().spawn("undo", async move {
        let Prepared {
            identity,
            mut known,
            session,
            owner_locks,
            lease,
            ..
        } = prepared;
        let adds_holds = known.iter().any(|it| it.holds > Some(0));
        // Without its record it did not run, and the session may have moved and have these holds.
        for lock in &mut known {
            lock.holds = None;
        }
        let only_while = session.as_deref().filter(|_| adds_holds);
        let undo = |_| true;
        core.undo_all(&identity, &known, undo, lease, only_while)
            .await;
        drop(owner_locks);
    })
}

async fn prepare(core: &Arc<Core>, request: &AcquireAll) -> Result<Prepared, Error> {
    let AcquireAll { locks, owner, .. } = request;
    let session = core.session_of(owner)?;
    let owner_locks = core.turns_of_all(locks, owner).await?;
    let known = known(session.as_ref(), locks, owner)?;
    let new = locks.iter().zip(&known);
    let new = new.filter(|((name, mode), known)| match &session {
        Some(_) => known.serial.is_none(),
        None => !core.sessionless.has(name, *mode, owner),
    });
    let reserved = core.reserve(&request.account, new.count())?;
    let lease = core.lease_of_new(session.as_ref(), request.lease);
    let attempt = core.attempts.next();
    let request_id = request.request_id.as_ref();
    let identity = Identity {
        locks: locks.clone(),
        owner: owner.clone(),
        record: request_id.map_or_else(|| attempt.clone(), |id| id.as_str().to_owned()),
        attempt,
        fresh_serial: core.attempts.fresh_serial(),
    };
    Ok(Prepared {
        identity,
        known,
        session,
        owner_locks,
        lease,
        reserved,
    })
}

/// The owner's holds in the session's grant table; an error if there is no room for all new ones.
fn known(
    session: Option<&Arc<Session>>,
    locks: &Locks,
    owner: &Owner,
) -> Result<Vec<Known>, Error> {
    let Some(session) = session else {
        let known = Known {
            holds: owner.is_new().then_some(0),
            serial: None,
        };
        return Ok(vec![known; locks.len()]);
    };
    session.live()?;
    let keys: Vec<GrantKey> = locks
        .iter()
        .map(|(name, mode)| GrantKey::new(name, mode, &owner.label))
        .collect();
    let known = session.holds_all(&keys)?;
    let known = known.into_iter().map(|(holds, serial)| Known {
        holds: Some(holds),
        serial,
    });
    Ok(known.collect())
}

/// Registers the grants, all or none, and starts their delivery. From here on undeliverable grants
/// are given back, except the answer to a repeat: the first answer may have arrived.
fn deliver(
    core: &Arc<Core>,
    request: &AcquireAll,
    prepared: Prepared,
    granted: &GrantedMembers,
) -> Result<DeliveryAll, Error> {
    let (sent_at, repeated) = (granted.sent_at, granted.repeated);
    let Prepared {
        identity,
        known,
        session,
        owner_locks,
        reserved,
        ..
    } = prepared;
    let watched = session.is_some() && request.lease.is_none();
    let grants = request
        .locks
        .iter()
        .zip(&granted.grants)
        .map(|((name, mode), taken)| Grant {
            name: name.clone(),
            mode,
            owner: request.owner.clone(),
            field: None,
            hold_count: taken.hold_count,
            fencing_token: taken.token,
            serial: taken.serial,
            lease: taken.lease,
            safe_until: safe_until(sent_at, taken.lease),
            watched,
            replica_acks: granted.replica_acks,
            min_replica_acks: request.min_replica_acks,
            note: request.note.clone(),
        });
    let grants: Vec<_> = grants.collect();
    let new = grants.iter().filter(|it| !repeated && it.hold_count == 1);
    new.for_each(|grant| core.grant_seen(grant, sent_at, false));
    let registered = if let Some(session) = &session {
        let adds_to = known.iter().map(|known| known.serial);
        let grants = grants.iter().cloned().zip(adds_to).collect();
        // What is reserved counts until they do.
        Some(session.register_all(&core.deadlines, grants, sent_at))
    } else {
        core.sessionless.hold_all(&grants, reserved);
        let new = grants.iter().filter(|_| !repeated);
        new.for_each(|grant| core.events.tell(|| Event::of_grant(What::Granted, grant)));
        None
    };
    let undo = (!repeated).then(|| UndoAll {
        core: Arc::clone(core),
        session,
        identity,
        registered: matches!(registered, Some(Ok(_))),
        owner_locks: None,
    });
    let mut delivery = DeliveryAll::together(grants, undo);
    let valid = registered.transpose().and_then(|registered| {
        if let Some(registered) = registered {
            delivery.set_registered(registered, repeated);
        }
        delivery.earliest_end().map_or(Ok(()), expect_valid)
    });
    if valid.is_err() {
        // The owner's next attempt would count holds that are about to be given back.
        delivery.keep(owner_locks);
    }
    valid.map(|()| delivery)
}

// === impl Prepared ===

impl Prepared {
    /// Adds what the attempt got, so that an undo leaves newer grants alone.
    fn knowing(mut self, taken: &[MemberGrant]) -> Self {
        for (known, taken) in self.known.iter_mut().zip(taken) {
            known.serial = Some(taken.serial);
        }
        self
    }
}

// === impl Core ===

impl Core {
    /// The owner locks on all of the locks, in the order common to all calls.
    pub(crate) async fn turns_of_all(
        &self,
        locks: &Locks,
        owner: &Owner,
    ) -> Result<Vec<OwnerLock>, CallError> {
        let mut owner_locks = Vec::with_capacity(locks.len());
        for (name, _) in locks.iter() {
            owner_locks.push(self.owner_lock(name, owner).await?);
        }
        Ok(owner_locks)
    }
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
