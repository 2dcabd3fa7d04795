//! One attempt to take a lock, and how it is undone when nobody takes what it got.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_store::script::{Acquired, Attempt, CallError, Hold, Ownership, Refusal};
use rand::RngExt as _;
use tokio::{task::JoinHandle, time::Instant};
use uuid::Uuid;

use crate::{
    Core,
    error::Error,
    events::{Event, What},
    operation::Acquire,
    session::{Session, books::Lost},
    turns::Turn,
    types::{Grant, GrantKey, safe_until},
    waiters::Place,
};

const MAX_SERIAL: u64 = 1 << 53;

/// The first pause before an undo or a release is sent again, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// The part of its lease for which the record of an attempt can be relied on: the call that looks
/// for it takes time too.
const RECORD_SHARE: f64 = 0.9;

/// What an attempt came to.
#[derive(Debug)]
pub(crate) enum Attempted {
    Granted(Delivery),
    Busy {
        /// When the holder's lease ends; none if that is not known.
        holder_until: Option<Instant>,
        /// The place in the queue of a fair lock, if it is known.
        place: Option<u32>,
    },
}

/// A grant on its way to the caller. If it is dropped before it is taken, the hold is given back.
#[derive(Debug)]
pub struct Delivery {
    grant: Grant,
    lost: Lost,
    undo: Option<Box<Undo>>,
}

/// What is needed to give a hold back that nobody took.
#[derive(Debug)]
struct Undo {
    core: Arc<Core>,
    session: Option<Arc<Session>>,
    record: Option<String>,
    attempt: String,
    /// When the attempt was sent.
    sent_at: Instant,
    /// Whether the hold is in the session's books.
    registered: bool,
    /// The turn of the attempt, if it is to be undone before anything else of this owner happens.
    turn: Option<Turn>,
}

/// Names for attempts, unique among all coordinators.
#[derive(Debug)]
pub(crate) struct Attempts {
    prefix: String,
    next: AtomicU64,
    /// Where the serials of read grants begin.
    serials: u64,
}

/// What an attempt knows before it asks the store.
struct Prepared {
    session: Option<Arc<Session>>,
    /// Kept until the outcome is known.
    turn: Turn,
    lease: Duration,
    known_holds: Option<u32>,
    /// The serial of the grant that it would add a hold to.
    serial: Option<u64>,
    /// That of a new read grant.
    fresh_serial: u64,
    /// The id of the record that tells later whether this attempt ran.
    record: Option<String>,
    attempt: String,
}

/// Makes one attempt, from a place in a line if there is one. Must run to its end: it registers
/// what it gets, or undoes it.
pub(crate) async fn attempt(
    core: &Arc<Core>,
    request: &Acquire,
    refusal: Refusal,
    place: Option<&Place>,
) -> Result<Attempted, Error> {
    let Acquire {
        name, mode, owner, ..
    } = request;
    let prepared = prepare(core, request).await?;
    let (scripts, acks) = core.replicated(request.min_replica_acks);
    let sent_at = Instant::now();
    let taken_over = match place.filter(|_| prepared.is_plain()) {
        // In a box, so that attempts without a place do not carry it.
        Some(place) => Box::pin(place.take_over(&scripts, prepared.lease)).await,
        None => None,
    };
    let reply = if let Some(reply) = taken_over {
        reply
    } else {
        let (hold, identity) = (request.hold(), prepared.identity());
        scripts
            .acquire(hold, prepared.lease, identity, refusal)
            .await
    };
    match reply {
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
                    // The answer to a repeat is not undone, because the first one may have arrived.
                    if !repeated {
                        let serial = Some(serial);
                        let undo = undo_attempt(core, request, Prepared { serial, ..prepared });
                        let _ = tokio::time::timeout(core.config.call_timeout, undo).await;
                    }
                    return Err(error.into());
                }
            };
            let grant = Grant {
                name: name.clone(),
                mode: *mode,
                owner: owner.clone(),
                hold_count,
                fencing_token: token,
                serial,
                lease,
                safe_until: safe_until(sent_at, lease),
                watched: prepared.session.is_some() && request.lease.is_none(),
                replica_acks,
                min_replica_acks: request.min_replica_acks,
            };
            if !repeated && hold_count == 1 {
                core.metrics.token_seen(&grant, sent_at);
            }
            deliver(core, prepared, grant, sent_at, repeated).map(Attempted::Granted)
        }
        Ok(Acquired::Busy { remaining, place }) => {
            let holder_until = remaining.map(|remaining| Instant::now() + remaining);
            Ok(Attempted::Busy {
                holder_until,
                place,
            })
        }
        Err(error) => {
            if let CallError::OutcomeUnknown(_) = error {
                undo_attempt(core, request, prepared);
            }
            Err(error.into())
        }
    }
}

/// Undoes an attempt that may have run, before anything else of its owner happens.
fn undo_attempt(core: &Arc<Core>, request: &Acquire, prepared: Prepared) -> JoinHandle<()> {
    let (core, request) = (Arc::clone(core), request.clone());
    core.tasks.clone().spawn("undo", async move {
        core.undo(request.hold(), prepared.identity(), prepared.lease)
            .await;
        drop(prepared.turn);
    })
}

async fn prepare(core: &Arc<Core>, request: &Acquire) -> Result<Prepared, Error> {
    let Acquire { name, owner, .. } = request;
    let session = core.session_of(owner)?;
    let turn = core.turn(name, owner).await?;
    let (known_holds, serial) = match &session {
        Some(session) => {
            session.live()?;
            let max = core.config.limits.grants_per_session_max;
            let key = GrantKey::new(name, request.mode, &owner.label);
            let (holds, serial) = session.holds(&key, max)?;
            (Some(holds), serial)
        }
        None => (owner.is_new().then_some(0), None),
    };
    let lease = match (&session, request.lease) {
        (_, Some(lease)) => lease.get(),
        (Some(session), None) => session.lease,
        (None, None) => core.config.lease,
    };
    let attempt = core.attempts.next();
    // Where the holds of the owner are not known, only a record can tell later whether this attempt
    // ran.
    let own_record = known_holds.is_none().then(|| attempt.clone());
    let record = request
        .request_id
        .as_ref()
        .map(|id| id.as_str().to_owned())
        .or(own_record);
    Ok(Prepared {
        session,
        turn,
        lease,
        known_holds,
        serial,
        fresh_serial: core.attempts.fresh_serial(),
        record,
        attempt,
    })
}

/// Registers a grant and gets it on its way. From here on a grant that cannot be told is given
/// back; but not the answer to a repeat, because the first one may have arrived.
fn deliver(
    core: &Arc<Core>,
    prepared: Prepared,
    grant: Grant,
    sent_at: Instant,
    repeated: bool,
) -> Result<Delivery, Error> {
    let Prepared {
        session,
        turn,
        serial,
        record,
        attempt,
        ..
    } = prepared;
    let undo = Undo {
        core: Arc::clone(core),
        session: session.clone(),
        record,
        attempt,
        sent_at,
        registered: false,
        turn: None,
    };
    let undo = (!repeated).then(|| Box::new(undo));
    let mut delivery = Delivery {
        grant,
        lost: Lost::default(),
        undo,
    };
    if let Some(session) = session {
        let grant = delivery.grant.clone();
        let registered = session.register(&core.deadlines, grant, serial, sent_at);
        if let Some(undo) = &mut delivery.undo {
            undo.registered = registered.is_ok();
            undo.turn = registered.is_err().then_some(turn);
        }
        (delivery.grant, delivery.lost) = registered?;
    } else if !repeated {
        core.events
            .tell(|| Event::of_grant(What::Granted, &delivery.grant));
    }
    if delivery.grant.safe_until <= Instant::now() {
        let why = "the answer came when the lease was over".to_owned();
        return Err(CallError::OutcomeUnknown(why).into());
    }
    Ok(delivery)
}

// === impl Prepared ===

impl Prepared {
    /// Whether it is a first hold, and nothing has to be looked up or recorded.
    fn is_plain(&self) -> bool {
        self.known_holds == Some(0) && self.record.is_none()
    }

    fn identity(&self) -> Attempt<'_> {
        Attempt {
            request_id: self.record.as_deref(),
            attempt: &self.attempt,
            known_holds: self.known_holds,
            serial: self.serial,
            fresh_serial: self.fresh_serial,
        }
    }
}

// === impl Delivery ===

impl Delivery {
    /// The grant, to be told to the caller now; an error if its session has lost it while it was on
    /// its way.
    pub fn take(mut self) -> Result<Grant, Error> {
        if self.lost.is_set() {
            return Err(Error::NotOwner(Ownership::Expired));
        }
        self.undo = None;
        Ok(self.grant.clone())
    }

    /// The grant, while it is not told yet.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_set()
    }

    /// Time has passed since the grant was made, and this is what it is now.
    pub(crate) fn set_grant(&mut self, grant: Grant) {
        self.grant = grant;
    }

    /// The grant as its session's books have it now; none if it is over.
    pub(crate) fn booked(&self, session: &Session) -> Option<Grant> {
        let key = GrantKey::of(&self.grant);
        session.grant_of(&key, &self.lost).ok().flatten()
    }

    /// Gives the hold back, in a task of its own; none if it is not to be given back.
    pub(crate) fn give_back(&mut self) -> Option<JoinHandle<()>> {
        let undo = self.undo.take()?;
        let (grant, lost) = (self.grant.clone(), self.lost.clone());
        let tasks = undo.core.tasks.clone();
        Some(tasks.spawn("give-back", undo.give_back(grant, lost)))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.give_back().is_some() {
            tracing::debug!(name = %self.grant.name, "nobody took the grant");
        }
    }
}

// === impl Undo ===

impl Undo {
    /// Gives back the hold of a grant that nobody took, as a release by its owner would.
    async fn give_back(self, grant: Grant, lost: Lost) {
        let Self {
            core,
            session,
            record,
            attempt,
            sent_at,
            registered,
            turn,
        } = self;
        let _turn = match turn {
            Some(turn) => turn,
            None => core.turns.take(&grant.name, &grant.owner).await,
        };
        let key = GrantKey::of(&grant);
        let Some(known_holds) = holds_without(session.as_ref(), registered, &grant, &lost) else {
            return;
        };
        if let Some(session) = &session {
            session.set_releasing(&key, true);
        }
        // A record that only an undo looks for ends with the lease that was asked for. A hold that
        // was renewed since, because another of several locks was waited for, is given back without
        // it: once, because a repeat could take another hold.
        let recorded_until = sent_at + grant.lease.mul_f64(RECORD_SHARE);
        if record.as_ref() == Some(&attempt) && Instant::now() >= recorded_until {
            let (hold, serial) = (grant.hold(), Some(grant.serial));
            let released = core.scripts.release(hold, serial, Duration::ZERO, None);
            if let Err(error) = released.await {
                tracing::debug!(%error, "left to its lease");
            }
            return;
        }
        let identity = Attempt {
            request_id: record.as_deref(),
            attempt: &attempt,
            known_holds: Some(known_holds),
            serial: Some(grant.serial),
            fresh_serial: 0,
        };
        let undone = core.undo(grant.hold(), identity, grant.lease).await;
        // A repeat of the request may have taken the grant over; then it is not this one's to give
        // back.
        if let Some(session) = session {
            if registered && (undone || record.is_none()) {
                session.set_holds(&core.deadlines, &key, known_holds, None);
            } else {
                session.set_releasing(&key, false);
            }
        } else if undone {
            core.events
                .tell(|| Event::of_grant(What::Released, &grant).holding(known_holds));
        }
    }
}

/// What the owner is to have without a hold that nobody took: the session's books count it only if
/// it was registered. None if it is not to be given back, because the books have another grant by
/// now, or a resume has confirmed it.
pub(crate) fn holds_without(
    session: Option<&Arc<Session>>,
    registered: bool,
    grant: &Grant,
    lost: &Lost,
) -> Option<u32> {
    let key = GrantKey::of(grant);
    // A hold that is not in the books is one more than they have; one that is has to be that of the
    // same grant still.
    let held = match (session, registered) {
        (None, _) => None,
        (Some(session), false) => session.grant(&key),
        (Some(session), true) => session.grant_of(&key, lost).ok()?,
    };
    match held {
        None => Some(0),
        Some(held) if held.serial != grant.serial => None,
        Some(held) => Some(held.hold_count.saturating_sub(registered.into())),
    }
}

// === impl Core ===

impl Core {
    /// Undoes an attempt, again and again until the store has answered or the lease is over. True
    /// if a hold was taken back.
    pub(crate) async fn undo(&self, hold: Hold<'_>, attempt: Attempt<'_>, lease: Duration) -> bool {
        let undo = || self.scripts.undo(hold, attempt);
        let undone = self.until_answered(lease, undo).await;
        self.count_undone(undone);
        undone.unwrap_or(false)
    }

    /// Counts a hold that was taken back, if the store said so.
    pub(crate) fn count_undone(&self, undone: Option<bool>) {
        if undone == Some(true) {
            self.metrics.orphan_reclaimed();
        }
    }

    /// Repeats a call that is safe to repeat until the store answers it, or until what it is about
    /// is over anyway.
    pub(crate) async fn until_answered<T, F>(
        &self,
        at_most: Duration,
        call: impl Fn() -> F,
    ) -> Option<T>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let give_up = Instant::now() + at_most;
        let mut pause = RETRY_MIN;
        loop {
            let error = match call().await {
                Ok(answer) => return Some(answer),
                Err(error) => error,
            };
            let transient = matches!(
                error,
                CallError::Unavailable(_) | CallError::OutcomeUnknown(_)
            );
            if !transient || Instant::now() + pause > give_up {
                tracing::debug!(%error, "left to its lease");
                return None;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }
}

// === impl Attempts ===

impl Attempts {
    pub(crate) fn new() -> Self {
        Self {
            prefix: format!("{:x}-", Uuid::new_v4().as_u128()),
            next: AtomicU64::new(0),
            serials: rand::rng().random(),
        }
    }

    /// Below 2^53, because scripts count in floating point. From a random start, so that the same
    /// owner at another coordinator hardly ever gets the same.
    pub(crate) fn fresh_serial(&self) -> u64 {
        let serial = self.serials.wrapping_add(self.next.load(Ordering::Relaxed));
        (serial % MAX_SERIAL).max(1)
    }

    pub(crate) fn next(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        [&self.prefix, itoa::Buffer::new().format(number)].concat()
    }
}
