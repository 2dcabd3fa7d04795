//! One attempt to take permits, and its undo when nobody takes the grant. The ids are the attempt's
//! own, so an undo is exact.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Counted;
use lockkeeper_store::script::{Ownership, PermitAttempt, PermitId, PermitsAcquired};
use rand::RngExt as _;
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    core::Core,
    error::Error,
    events::{Event, What},
    repeat::expect_valid,
    semaphore::request::AcquirePermits,
    session::{held::Lost, session::Session},
    types::{GrantKey, LockName, PermitGrant, RequestId, safe_until},
};

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Attempted {
    Granted(PermitDelivery),
    Busy {
        /// Free permits.
        available: u32,
        /// When the next lease of a taken permit ends; none if none ever does.
        next_end: Option<Instant>,
    },
}

/// Permits on their way to the caller. If dropped before [`PermitDelivery::take`], they are given
/// back.
#[derive(Debug)]
pub struct PermitDelivery {
    grant: PermitGrant,
    /// Permits left when these were taken.
    available: u32,
    lost: Lost,
    undo: Option<Box<Undo>>,
}

/// What is needed to give back permits that nobody took.
#[derive(Debug)]
struct Undo {
    core: Arc<Core>,
    session: Option<Arc<Session>>,
    taking: Taking,
}

/// The identity of an attempt.
#[derive(Clone, Debug)]
struct Taking {
    record: Option<RequestId>,
    attempt: String,
    ids: Arc<[PermitId]>,
}

/// Makes one attempt. Must run to its end: it registers its grant or undoes it.
pub(crate) async fn attempt(
    core: &Arc<Core>,
    request: &AcquirePermits,
    record_refusal: bool,
) -> Result<Attempted, Error> {
    let AcquirePermits { name, owner, .. } = request;
    let session = core.session_of(owner)?;
    // A release of all permits of the owner precedes or follows this attempt.
    let _owner_lock = core.owner_lock(name, owner).await?;
    if let Some(session) = &session {
        session.may_take_permits()?;
    }
    let permits = request.permits.get() as usize;
    let reserved = core.reserve(&request.account, permits)?;
    let lease = core.lease_of_new(session.as_ref(), request.lease);
    let taking = Taking::new(core, request);
    let (scripts, acks) = core.replicated(request.min_replica_acks);
    let sent_at = Instant::now();
    let (key, field, identity) = (name.store_key(), owner.field(), taking.identity());
    let asked = scripts.acquire_permits(key, field, lease, identity, record_refusal);
    match asked.await {
        Ok(PermitsAcquired::Granted {
            ids,
            available,
            lease,
            repeated,
        }) => {
            let replica_acks = match acks.acknowledged() {
                Ok(replica_acks) => replica_acks,
                Err(error) => {
                    let undo = (!repeated).then(|| undo_attempt(core, name, taking, lease));
                    return Err(core.not_replicated(error, undo).await);
                }
            };
            let grant = PermitGrant {
                name: name.clone(),
                owner: owner.clone(),
                ids: ids.into(),
                serial: 0,
                lease,
                safe_until: safe_until(sent_at, lease),
                watched: session.is_some() && request.lease.is_none(),
                replica_acks,
                min_replica_acks: request.min_replica_acks,
            };
            let undo = Undo {
                core: Arc::clone(core),
                session,
                taking,
            };
            let delivered = deliver(undo, grant, reserved, available, sent_at, repeated);
            delivered.map(Attempted::Granted)
        }
        Ok(PermitsAcquired::Busy {
            available,
            next_end,
        }) => Ok(Attempted::Busy {
            available,
            next_end: next_end.map(|left| Instant::now() + left),
        }),
        Ok(PermitsAcquired::TooMany { total }) => Err(Error::PermitsExceeded { total }),
        Ok(PermitsAcquired::NoSemaphore) => Err(Error::SemaphoreNotFound),
        Err(error) => {
            if error.may_have_changed() {
                undo_attempt(core, name, taking, lease);
            }
            Err(error.into())
        }
    }
}

/// Undoes an attempt that may have run.
fn undo_attempt(
    core: &Arc<Core>,
    name: &LockName,
    taking: Taking,
    lease: Duration,
) -> JoinHandle<()> {
    let (core, name) = (Arc::clone(core), name.clone());
    core.tasks.clone().spawn("undo-permits", async move {
        let undo = || {
            core.scripts
                .undo_permits(name.store_key(), taking.identity())
        };
        // Known by the ids of the permits.
        core.until_undone(lease, undo).await;
    })
}

/// Registers permits and starts their delivery. From here on undeliverable permits are given back,
/// except the answer to a repeat: the first answer may have arrived.
fn deliver(
    undo: Undo,
    grant: PermitGrant,
    reserved: Counted,
    available: u32,
    sent_at: Instant,
    repeated: bool,
) -> Result<PermitDelivery, Error> {
    let (core, session) = (Arc::clone(&undo.core), undo.session.clone());
    let mut delivery = PermitDelivery {
        grant,
        available,
        lost: Lost::default(),
        undo: (!repeated).then(|| Box::new(undo)),
    };
    if let Some(session) = session {
        let grant = delivery.grant.clone();
        let registered = session.register_permits(&core.deadlines, grant, sent_at);
        // As for a lock.
        drop(reserved);
        (delivery.grant, delivery.lost) = registered?;
        if repeated {
            delivery.lost.set_repeated();
        }
    } else {
        core.sessionless.hold_permits(&delivery.grant, reserved);
        if !repeated {
            core.events
                .tell(|| Event::of_permits(What::Granted, &delivery.grant));
        }
    }
    expect_valid(delivery.grant.safe_until)?;
    Ok(delivery)
}

// === impl Taking ===

impl Taking {
    fn new(core: &Core, request: &AcquirePermits) -> Self {
        let ids = (0..request.permits.get()).map(|_| rand::rng().random());
        Self {
            record: request.request_id.clone(),
            attempt: core.attempts.next(),
            ids: ids.collect(),
        }
    }

    fn identity(&self) -> PermitAttempt<'_> {
        PermitAttempt {
            request_id: self.record.as_ref().map(RequestId::as_str),
            attempt: &self.attempt,
            ids: &self.ids,
        }
    }
}

// === impl PermitDelivery ===

impl PermitDelivery {
    /// Takes the grant for the caller; an error if its session lost it on the way.
    pub fn take(mut self) -> Result<PermitGrant, Error> {
        if self.lost.is_set() {
            return Err(Error::NotOwner(Ownership::Expired));
        }
        self.undo = None;
        Ok(self.grant.clone())
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.grant.name
    }

    /// Permits left when these were taken.
    pub(crate) fn available(&self) -> u32 {
        self.available
    }
}

impl Drop for PermitDelivery {
    fn drop(&mut self) {
        if let Some(undo) = self.undo.take() {
            let (grant, lost) = (self.grant.clone(), self.lost.clone());
            tracing::debug!(name = %grant.name, "nobody took the permits");
            let tasks = undo.core.tasks.clone();
            tasks.spawn("give-permits-back", undo.give_back(grant, lost));
        }
    }
}

// === impl Undo ===

impl Undo {
    async fn give_back(self, grant: PermitGrant, lost: Lost) {
        let Self {
            core,
            session,
            taking,
        } = self;
        let _owner_lock = core.owner_locks.take(&grant.name, &grant.owner).await;
        let key = GrantKey::of_permits(&grant);
        if let Some(session) = &session {
            // A resume has confirmed them, so this undo must not give them back any more.
            if session.grant_of(&key, &lost).is_err() {
                return;
            }
            session.set_releasing(&key, true);
        }
        let undo = || {
            core.scripts
                .undo_permits(grant.name.store_key(), taking.identity())
        };
        let undone = core.until_undone(grant.lease, undo).await;
        // If a repeat of the request has taken the grant over, the session keeps it.
        if let Some(session) = session {
            if undone || !lost.is_repeated() {
                session.drop_permits(&core.deadlines, &[grant], &[]);
            } else {
                session.set_releasing(&key, false);
            }
        } else if undone {
            core.sessionless
                .release_permits(&grant.name, &grant.owner, &grant.ids);
            core.events
                .tell(|| Event::of_permits(What::Released, &grant).holding(0));
        }
    }
}

// === impl Core ===

impl Core {
    /// Gives back permits that a session held and no longer has.
    pub(crate) async fn give_permits_back(&self, grant: &PermitGrant) {
        if grant.ids.is_empty() {
            return;
        }
        let exactly = PermitAttempt {
            request_id: None,
            attempt: "",
            ids: &grant.ids,
        };
        let undo = || self.scripts.undo_permits(grant.name.store_key(), exactly);
        self.until_answered(grant.lease, undo).await;
    }
}
