//! One attempt to take a lock, and its undo when nobody takes the grant.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Counted;
use lockkeeper_store::script::{
    Acquired, Attempt, CallError, HandOver, Hold, Mode, Refusal, Scripts,
};
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    core::Core,
    error::Error,
    events::{Event, What},
    lock::{
        delivery::{Delivery, Undo},
        request::Acquire,
    },
    owner_lock::OwnerLock,
    repeat::expect_valid,
    session::{held::Lost, session::Session},
    types::{Grant, GrantKey, HolderKnown, Invalid, OnDisconnect, RequestId, hold_of, safe_until},
    waiters::queue::QueueTicket,
};

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum Attempted {
    Granted(Delivery),
    Busy {
        /// What is known of the holder.
        holder: HolderKnown,
        /// Position in the queue of a fair lock, if known.
        place: Option<u32>,
    },
}

/// Who may give the lock to an attempt directly.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Giver<'a> {
    /// A release here, if this ticket is the next of its line.
    Line(&'a QueueTicket),
    /// The last hold of the grant with this token, which was offered; nobody else.
    Holder(Hold<'a>, u64),
}

/// What an attempt knows before it calls the store.
struct Prepared {
    session: Option<Arc<Session>>,
    /// Kept until the outcome is known.
    owner_lock: OwnerLock,
    /// The field that names the grant, if one does.
    field: Option<Arc<str>>,
    lease: Duration,
    known_holds: Option<u32>,
    /// The serial of the grant that it would add a hold to.
    serial: Option<u64>,
    /// The serial of a new read grant.
    fresh_serial: u64,
    /// The id of the record that shows later whether this attempt ran.
    record: Option<String>,
    attempt: String,
    /// The new grant's use of the caller's quota, until it is registered.
    reserved: Counted,
}

/// Makes one attempt, to take the lock from these if there are any. Must run to its end: it
/// registers its grant or undoes it.
pub(crate) async fn attempt(
    core: &Arc<Core>,
    request: &Acquire,
    refusal: Refusal,
    giver: Option<Giver<'_>>,
) -> Result<Attempted, Error> {
    let prepared = prepare(core, request).await?;
    let (scripts, acks) = core.replicated(request.min_replica_acks);
    let sent_at = Instant::now();
    match ask(&scripts, request, &prepared, refusal, giver).await {
        Ok(Acquired::Granted {
            hold_count,
            token,
            lease,
            serial,
            repeated,
        }) => {
            let replica_acks = match acks.acknowledged() {
                Ok(replica_acks) => replica_acks,
                Err(error) => {
                    let serial = Some(serial);
                    let taken = Prepared { serial, ..prepared };
                    let undo = (!repeated).then(|| undo_attempt(core, request, taken));
                    return Err(core.not_replicated(error, undo).await);
                }
            };
            let grant = Grant {
                name: request.name.clone(),
                mode: request.mode,
                owner: request.owner.clone(),
                field: prepared.field.clone(),
                hold_count,
                fencing_token: token,
                serial,
                lease,
                safe_until: safe_until(sent_at, lease),
                watched: prepared.session.is_some() && request.lease.is_none(),
                replica_acks,
                min_replica_acks: request.min_replica_acks,
                note: request.note.clone(),
            };
            if !repeated && hold_count == 1 {
                // A holder who offers the lock is notified by the claim.
                let is_claimed = matches!(giver, Some(Giver::Holder(..)));
                core.grant_seen(&grant, sent_at, is_claimed);
            }
            deliver(core, prepared, grant, sent_at, repeated).map(Attempted::Granted)
        }
        Ok(Acquired::Busy {
            remaining,
            place,
            note,
        }) => Ok(Attempted::Busy {
            holder: HolderKnown::of(remaining, note),
            place,
        }),
        Err(error) => {
            if error.may_have_changed() {
                undo_attempt(core, request, prepared);
            }
            Err(error.into())
        }
    }
}

/// Takes the lock over from who offers it; otherwise asks the store.
async fn ask(
    scripts: &Scripts,
    request: &Acquire,
    prepared: &Prepared,
    refusal: Refusal,
    giver: Option<Giver<'_>>,
) -> Result<Acquired, CallError> {
    let (field, lease) = (prepared.field.as_deref(), prepared.lease);
    let identity = prepared.identity();
    match giver {
        // Boxed, so that other attempts do not carry it.
        Some(Giver::Line(place)) if prepared.may_take_over(request) => {
            let taken_over = Box::pin(place.take_over(scripts, field, lease, &identity));
            if let Some(reply) = taken_over.await {
                return reply;
            }
        }
        Some(Giver::Holder(hold, token)) => {
            let next = field.unwrap_or_else(|| request.owner.field());
            let claimed = scripts.hand_over(hold, Some(token), (next, lease), &identity);
            let claimed = Box::pin(claimed);
            return Ok(match claimed.await? {
                HandOver::Done(token) => Acquired::first(token, lease),
                HandOver::NotFirst | HandOver::OthersRead(_) | HandOver::Refused => {
                    Acquired::nothing_known()
                }
            });
        }
        Some(Giver::Line(_)) | None => {}
    }
    let hold = prepared.hold(request);
    let identity = Attempt {
        note: request.note.as_deref(),
        least: request.hold_at_least.as_deref().map(|it| it.get()),
        delay: request.lock_delay.as_deref().map(|it| it.get()),
        ..identity
    };
    let acquired = scripts.acquire(hold, prepared.lease, &identity, refusal);
    acquired.await
}

/// Undoes an attempt that may have run, before any later operation of its owner.
fn undo_attempt(core: &Arc<Core>, request: &Acquire, prepared: Prepared) -> JoinHandle<()> {
    let (core, request) = (Arc::clone(core), request.clone());
    core.tasks.clone().spawn("undo", async move {
        let is_read = prepared.is_first() && request.mode == Mode::Read;
        let identity = Attempt {
            serial: is_read.then_some(prepared.fresh_serial).or(prepared.serial),
            lease: prepared.lease,
            ..prepared.identity()
        };
        let session = prepared.session.as_deref();
        let only_while = session.filter(|_| !prepared.is_told_apart(&request));
        let hold = prepared.hold(&request);
        core.undo(hold, &identity, only_while).await;
        drop(prepared.owner_lock);
    })
}

async fn prepare(core: &Arc<Core>, request: &Acquire) -> Result<Prepared, Error> {
    let Acquire { name, owner, .. } = request;
    let session = core.session_of(owner)?;
    let owner_lock = core.owner_lock(name, owner).await?;
    let (known_holds, serial) = match &session {
        Some(session) => {
            session.live()?;
            if request.lock_delay.is_some() && session.on_disconnect == OnDisconnect::Release {
                let why = "does not fit a session that releases its locks when its stream breaks";
                return Err(Invalid::new("lock_delay", why).into());
            }
            let key = GrantKey::new(name, request.mode, &owner.label);
            let (holds, serial) = session.holds(&key)?;
            (Some(holds), serial)
        }
        None => (owner.is_new().then_some(0), None),
    };
    let is_known = match &session {
        Some(_) => serial.is_some(),
        None => core.sessionless.has(name, request.mode, owner),
    };
    let reserved = core.reserve(&request.account, usize::from(!is_known))?;
    let lease = core.lease_of_new(session.as_ref(), request.lease);
    // So a crash does not free it earlier either.
    let lease = lease.max(
        request
            .hold_at_least
            .as_deref()
            .map_or(Duration::ZERO, |it| it.get()),
    );
    let set = request.request_id.as_ref().map(RequestId::set);
    // As lua/lib/acquire.lua knows it.
    let attempt = core.attempts.next() + set.unwrap_or_default();
    // If the owner's holds are unknown, only a record shows later whether this attempt ran.
    let own_record = known_holds.is_none().then(|| attempt.clone());
    let record = request
        .request_id
        .as_ref()
        .map(|id| id.as_str().to_owned())
        .or(own_record);
    let fresh_serial = core.attempts.fresh_serial();
    let field = if known_holds == Some(0) && record.is_none() && request.is_bare() {
        let names_it = core.scripts.names_grants(request.mode)
            || request.mode == Mode::Exclusive
                && session.as_ref().is_some_and(|it| it.was_resumed());
        names_it.then(|| owner.grant_field(fresh_serial)).flatten()
    } else {
        held_field(session.as_ref(), request)
    };
    Ok(Prepared {
        session,
        owner_lock,
        field,
        lease,
        known_holds,
        serial,
        fresh_serial,
        record,
        attempt,
        reserved,
    })
}

/// The field of the grant that an exclusive attempt adds a hold to, if it names that grant.
fn held_field(session: Option<&Arc<Session>>, request: &Acquire) -> Option<Arc<str>> {
    let session = session.filter(|_| request.mode == Mode::Exclusive)?;
    let key = GrantKey::new(&request.name, request.mode, &request.owner.label);
    session.grant(&key)?.field
}

/// Registers a grant and starts its delivery. From here on a grant that cannot be delivered is
/// given back, except the answer to a repeat: the first answer may have arrived.
fn deliver(
    core: &Arc<Core>,
    prepared: Prepared,
    grant: Grant,
    sent_at: Instant,
    repeated: bool,
) -> Result<Delivery, Error> {
    let Prepared {
        session,
        owner_lock,
        serial,
        record,
        attempt,
        reserved,
        ..
    } = prepared;
    let undo = Undo {
        core: Arc::clone(core),
        session: session.clone(),
        record,
        attempt,
        sent_at,
        registered: false,
        owner_lock: None,
    };
    let undo = (!repeated).then(|| Box::new(undo));
    let mut delivery = Delivery {
        grant,
        lost: Lost::default(),
        undo,
    };
    // The owner's next attempt would count a hold that is about to be given back.
    let mut owner_lock = Some(owner_lock);
    if let Some(session) = session {
        let grant = &mut delivery.grant;
        let registered = session.register(&core.deadlines, grant, serial, sent_at);
        // Not before the grant counts by itself, or others could take its place in the quota.
        drop(reserved);
        if let Some(undo) = &mut delivery.undo {
            undo.registered = registered.is_ok();
            undo.owner_lock = owner_lock.take_if(|_| registered.is_err());
        }
        delivery.lost = registered?;
        if repeated {
            delivery.lost.set_repeated();
        }
    } else {
        core.sessionless.hold(&delivery.grant, reserved);
        if !repeated {
            core.events
                .tell(|| Event::of_grant(What::Granted, &delivery.grant));
        }
    }
    let valid = expect_valid(delivery.grant.safe_until);
    if let (Err(_), Some(undo)) = (&valid, &mut delivery.undo) {
        undo.owner_lock = owner_lock.take();
    }
    valid.map(|()| delivery)
}

// === impl Prepared ===

impl Prepared {
    fn is_first(&self) -> bool {
        self.known_holds == Some(0)
    }

    /// Whether another owner may hand its last hold over to this one, which has none. If its holds
    /// are unknown, it has none either, because the other has the lock alone.
    fn may_take_over(&self, request: &Acquire) -> bool {
        self.known_holds.unwrap_or_default() == 0 && request.is_bare()
    }

    /// Whether the store tells the hold of this attempt from one that its session may have taken
    /// since, at another coordinator: by a record, by the serial, or because a resumed session
    /// names its exclusive grants.
    fn is_told_apart(&self, request: &Acquire) -> bool {
        let has_its_own = match request.mode {
            Mode::Read => true,
            Mode::Exclusive => request.is_bare(),
            Mode::Fair | Mode::Write => self.serial.is_some(),
        };
        self.record.is_some() || self.is_first() && has_its_own
    }

    fn hold<'a>(&'a self, request: &'a Acquire) -> Hold<'a> {
        let Acquire { name, owner, .. } = request;
        hold_of(name, request.mode, owner, self.field.as_deref())
    }

    fn identity(&self) -> Attempt<'_> {
        Attempt {
            request_id: self.record.as_deref(),
            known_holds: self.known_holds,
            serial: self.serial,
            ..Attempt::new(&self.attempt, self.fresh_serial)
        }
    }
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
