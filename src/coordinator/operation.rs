//! What can be asked of a coordinator, and what it answers. RPCs and frames of a session's stream
//! become the same operations.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Account;
use lockkeeper_base::busy_poll::{self, Next};
use lockkeeper_store::script::{CallError, Hold, Mode, Ownership, Refusal, Released, Renewal};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    acquire::acquire,
    attempt::{Attempted, attempt},
};
use crate::{
    Core,
    attempt::Delivery,
    describe::describe,
    error::Error,
    events::Event,
    latch::{self, LatchAnswer, LatchOperation},
    mailbox::{MailboxWriter, mailbox},
    multi::{
        AcquireAll, ReleaseAll, ReleasedLock, TriedAll, acquire_all, release::release_all,
        try_acquire_all, undo::DeliveryAll,
    },
    permits::{self, PermitAnswer, PermitOperation},
    session::Session,
    spans,
    types::{Grant, GrantKey, Lease, LockName, Owner, RequestId, safe_until},
};

/// Something to do, already checked.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Wait for a lock.
    Acquire(Acquire),
    /// Take a lock if that can be done now; `wait` is not used.
    TryAcquire(Acquire),
    /// Wait for several locks.
    AcquireAll(AcquireAll),
    /// Take several locks if all can be had now; `wait` is not used.
    TryAcquireAll(AcquireAll),
    /// Give one hold back.
    Release(Release),
    /// Give one hold of each of several locks back.
    ReleaseAll(ReleaseAll),
    /// Extend a lease.
    Renew(Renew),
    /// Tell who holds a lock and who waits for it.
    Describe(LockName),
    /// Tell whether a token is the newest grant's.
    CheckToken(LockName, u64),
    /// Something with a semaphore.
    Permits(PermitOperation),
    /// Something with a latch.
    Latch(LatchOperation),
}

/// A wish to hold a lock.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The lock.
    pub name: LockName,
    /// How to hold it.
    pub mode: Mode,
    /// Who wants it.
    pub owner: Owner,
    /// None: watched in a session, else the default lease.
    pub lease: Option<Lease>,
    /// None: without limit.
    pub wait: Option<Duration>,
    /// Makes a repeat safe.
    pub request_id: Option<RequestId>,
    /// Replicas that must acknowledge the grant and its renewals; the configuration may ask for
    /// more.
    pub min_replica_acks: u32,
}

/// A hold to give back.
#[derive(Clone, Debug)]
pub struct Release {
    /// The lock.
    pub name: LockName,
    /// How it is held.
    pub mode: Mode,
    /// Who holds it.
    pub owner: Owner,
    /// Makes a repeat safe.
    pub request_id: Option<RequestId>,
}

/// A lease to extend.
#[derive(Clone, Debug)]
pub struct Renew {
    /// The lock.
    pub name: LockName,
    /// How it is held.
    pub mode: Mode,
    /// Who holds it.
    pub owner: Owner,
    /// None: the grant's own in a session, else the default lease.
    pub lease: Option<Lease>,
}

/// Where the answers go. The operation counts as unwanted when it is cancelled or when nobody
/// listens any more.
#[derive(Debug)]
pub struct Reply {
    /// Repeated in each answer.
    pub op_id: u64,
    /// Whom to answer.
    pub to: AnswersTo,
    /// Ends a wait.
    pub cancel: Option<CancellationToken>,
    /// The operation's share of a bound on short operations; given back with the answer, or when a
    /// wait begins.
    pub slot: Option<OwnedSemaphorePermit>,
    /// On whose account it waits.
    pub account: Account,
}

/// Who takes the answers of an operation.
#[derive(Debug)]
pub enum AnswersTo {
    /// A queue for many operations. A second slot is needed to be told of a wait, the last answer
    /// takes any.
    Queue(mpsc::Sender<(u64, Answer)>),
    /// A mailbox for this one.
    Mailbox(MailboxWriter),
}

/// What is answered. Every operation ends with exactly one answer that is not about a wait.
#[derive(Debug)]
pub enum Answer {
    /// The wait goes on.
    Waiting(Waiting),
    /// The caller holds the lock as soon as it takes this.
    Granted(Delivery),
    /// The wait ended without a grant.
    NotGranted(NotGranted),
    /// What a try came to.
    Tried(Tried),
    /// The wait for several locks goes on: it is for this one.
    WaitingForAll(LockName, Waiting),
    /// The caller holds the locks as soon as it takes this.
    GrantedAll(DeliveryAll),
    /// What a try for several locks came to.
    TriedAll(TriedAll),
    /// Holds that the owner has left after a release.
    Released(u32),
    /// What became of each of several locks.
    ReleasedAll(Vec<ReleasedLock>),
    /// The grant with its new lease.
    Renewed(Grant),
    /// Who holds the lock, who waits.
    Described(Description),
    /// About a token.
    TokenChecked(TokenChecked),
    /// About a semaphore.
    Permits(PermitAnswer),
    /// About a latch.
    Latch(LatchAnswer),
    /// There is no outcome.
    Failed(Error),
}

/// What a try came to.
#[derive(Debug)]
pub enum Tried {
    /// The caller holds the lock as soon as it takes this.
    Acquired(Delivery),
    /// Somebody else holds it.
    Busy {
        /// When the holder's lease ends; none if its key has no time to live.
        holder_until: Option<Instant>,
    },
}

/// The state of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// 1 is the next to try: at this coordinator, of a fair lock among all.
    pub position: u32,
    /// When the holder's lease ends; none if its key has no time to live.
    pub holder_until: Option<Instant>,
}

/// A wait or a try that ended without a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotGranted {
    /// Cancelled by the caller; otherwise its time ran out.
    pub cancelled: bool,
    /// When the holder's lease ends, as last heard.
    pub holder_until: Option<Instant>,
}

/// A lock as it was when the store was asked.
#[derive(Clone, Debug)]
pub struct Description {
    /// The lock.
    pub name: LockName,
    /// How it is held; none if nobody holds it.
    pub mode: Option<Mode>,
    /// The first who hold it.
    pub holders: Vec<HolderSeen>,
    /// How many hold it.
    pub holder_count: usize,
    /// What is left of the lease; none if nobody holds it or the key has no time to live.
    pub remaining: Option<Duration>,
    /// The newest token; 0: none known.
    pub fencing_token: u64,
    /// The first who wait: of a fair lock all that wait, of others those at this coordinator.
    pub waiters: Vec<WaiterSeen>,
    /// How many wait, counted in the same way.
    pub waiter_count: usize,
}

/// An owner that holds a lock.
#[derive(Clone, Debug)]
pub struct HolderSeen {
    /// Who.
    pub owner: Owner,
    /// How it holds the lock.
    pub mode: Mode,
    /// Holds.
    pub hold_count: u32,
    /// What is left of its lease; none if it has no time to live.
    pub remaining: Option<Duration>,
    /// The session's name, if it is connected here.
    pub client_name: String,
}

/// A call that waits.
#[derive(Clone, Debug)]
pub struct WaiterSeen {
    /// Who.
    pub owner: Owner,
    /// How it wants to hold the lock.
    pub mode: Mode,
    /// The session's name, if it is connected here.
    pub client_name: String,
    /// Since when, if it waits here.
    pub since: Option<Instant>,
}

/// About a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenChecked {
    /// It is the newest grant's.
    pub current: bool,
    /// The newest grant's token; 0: none known.
    pub last: u64,
    /// Somebody holds the lock.
    pub held: bool,
}

/// Runs an operation to its end and answers it.
pub(super) async fn run(core: Arc<Core>, operation: Operation, mut reply: Reply) {
    let begun = Instant::now();
    busy_poll::expect(Next::Answer);
    let answer = match &operation {
        Operation::Acquire(request) => acquire(&core, request, &mut reply).await,
        // While a lock is waited for, this is what stays in memory; so all but that has a box of
        // its own.
        other => Box::pin(answer(&core, other, &mut reply)).await,
    };
    busy_poll::expect(Next::Operation);
    core.metrics.ended(&operation, &answer, begun);
    spans::ended(&operation, &answer);
    reply.finish(answer).await;
}

/// Runs an operation that does not wait. The frequent ones stand apart: the others are boxed, or
/// each call would carry their state.
pub(super) async fn ask(core: Arc<Core>, operation: Operation) -> Answer {
    let begun = Instant::now();
    busy_poll::expect(Next::Answer);
    let answer = match &operation {
        Operation::TryAcquire(request) => try_acquire(&core, request).await,
        Operation::Release(request) => release(&core, request).await,
        other => Box::pin(answer(&core, other, &mut Reply::unheard())).await,
    };
    busy_poll::expect(Next::Operation);
    core.metrics.ended(&operation, &answer, begun);
    spans::ended(&operation, &answer);
    answer.unwrap_or_else(Answer::Failed)
}

async fn answer(
    core: &Arc<Core>,
    operation: &Operation,
    reply: &mut Reply,
) -> Result<Answer, Error> {
    match operation {
        Operation::Acquire(request) => Box::pin(acquire(core, request, reply)).await,
        Operation::TryAcquire(request) => try_acquire(core, request).await,
        Operation::AcquireAll(request) => Box::pin(acquire_all(core, request, reply)).await,
        Operation::TryAcquireAll(request) => try_acquire_all(core, request).await,
        Operation::Release(request) => release(core, request).await,
        Operation::ReleaseAll(request) => release_all(core, request).await,
        Operation::Renew(request) => renew(core, request).await,
        Operation::Describe(name) => describe(core, name).await,
        Operation::CheckToken(name, token) => check_token(core, name, *token).await,
        Operation::Permits(operation) => permits::run(core, operation, reply).await,
        Operation::Latch(operation) => latch::run(core, operation, reply).await,
    }
}

async fn try_acquire(core: &Arc<Core>, request: &Acquire) -> Result<Answer, Error> {
    if core.draining.is_cancelled() {
        return Err(Error::Draining);
    }
    let refusal = if request.request_id.is_some() {
        Refusal::Recorded
    } else {
        Refusal::Forgotten
    };
    Ok(Answer::Tried(
        match attempt(core, request, refusal, None).await? {
            Attempted::Granted(delivery) => Tried::Acquired(delivery),
            Attempted::Busy { holder_until, .. } => Tried::Busy { holder_until },
        },
    ))
}

async fn release(core: &Arc<Core>, request: &Release) -> Result<Answer, Error> {
    let Release {
        name,
        mode,
        owner,
        request_id,
    } = request;
    let session = core.session_of(owner)?;
    let turn = core.turn(name, owner).await?;
    let key = GrantKey::new(name, *mode, &owner.label);
    let held = session.as_ref().and_then(|session| session.grant(&key));
    // Whether a lock with one owner has a queue is known better here than by the caller.
    let mode = held.as_ref().map_or(*mode, |held| held.mode);
    let which = Hold::new(name.as_str(), mode, owner.field());
    if let Some(session) = &session {
        session.set_releasing(&key, true);
    }
    let lease = match (&session, &held) {
        (Some(session), Some(held)) if held.watched => session.lease,
        (_, Some(held)) => held.lease,
        (_, None) => core.config.lease,
    };
    let sent_at = Instant::now();
    let record = request_id.as_ref().map(RequestId::as_str);
    let (scripts, acks) = core.replicated(0);
    let serial = held.as_ref().map(|held| held.serial);
    let call = scripts.release(which, serial, lease, record);
    // The answer to a repeat does not say whether the lock has just become free.
    let is_last = held.as_ref().is_none_or(|held| held.hold_count <= 1) && record.is_none();
    let released = if mode == Mode::Exclusive && is_last && core.scripts.keeps_order() {
        let in_one_call = !core.waits_for_replicas(0);
        core.waiters
            .hand_on(name, (owner, serial), in_one_call, call)
            .await
    } else {
        call.await
    };
    // One that only the master knows of is safe: at worst the lock is held until its lease is over.
    if let Err(error) = acks.acknowledged() {
        tracing::info!(%name, %error, "released");
    }
    let Some(session) = session else {
        return match released? {
            Released::Done { hold_count, .. } => {
                core.events
                    .tell(|| Event::of_release(name, mode, owner, hold_count));
                Ok(Answer::Released(hold_count))
            }
            Released::NotOwner(ownership) => Err(Error::NotOwner(ownership)),
        };
    };
    match released {
        Ok(Released::Done {
            hold_count,
            held,
            lease,
        }) => {
            // The answer to a repeat is that of the first call; what the session holds is what the
            // store says now.
            let until = Some(safe_until(sent_at, lease));
            session.set_holds(&core.deadlines, &key, held, until);
            Ok(Answer::Released(hold_count))
        }
        Ok(Released::NotOwner(ownership)) => {
            let reason = core.why_lost(&session, &key, ownership).await;
            session.lose(&core.deadlines, &key, reason);
            Err(Error::NotOwner(ownership))
        }
        Err(error) => {
            match (&error, held) {
                (CallError::OutcomeUnknown(_), Some(held)) => {
                    let core = Arc::clone(core);
                    let request = request.clone();
                    core.tasks.clone().spawn("finish-release", async move {
                        finish_release(&core, &session, &request, &key, &held).await;
                        drop(turn);
                    });
                }
                _ => session.set_releasing(&key, false),
            }
            Err(error.into())
        }
    }
}

/// Brings a release to its end whose outcome is not known: the caller wanted it, and repeating it
/// does no harm.
async fn finish_release(
    core: &Arc<Core>,
    session: &Arc<Session>,
    request: &Release,
    key: &GrantKey,
    held: &Grant,
) {
    let left = held.hold_count.saturating_sub(1);
    let (which, serial) = (held.hold(), held.serial);
    let at_most = held.lease;
    // The grant is the session's no longer, or only with the holds that are left, whatever the
    // store says.
    session.set_holds(&core.deadlines, key, left, None);
    if let Some(id) = &request.request_id {
        // The same call again leaves the record that the client's own repeat will find.
        let again = || {
            core.scripts
                .release(which, Some(serial), at_most, Some(id.as_str()))
        };
        core.until_answered(at_most, again).await;
    } else {
        core.until_answered(at_most, || core.scripts.lower(which, serial, left))
            .await;
    }
}

async fn renew(core: &Arc<Core>, request: &Renew) -> Result<Answer, Error> {
    let Renew {
        name,
        mode,
        owner,
        lease,
    } = request;
    let session = core.session_of(owner)?;
    let key = GrantKey::new(name, *mode, &owner.label);
    let held = session
        .as_ref()
        .map(|session| (session, session.grant(&key)));
    let own_lease = match &held {
        None => core.config.lease,
        Some((session, Some(held))) if held.watched => session.lease,
        Some((_, Some(held))) => held.lease,
        // After `lost` there is no `renewed`, even if the store still has the hold.
        Some((_, None)) => return Err(Error::NotOwner(core.ownership(name).await?)),
    };
    let renewal = Renewal {
        name: name.shared(),
        mode: *mode,
        owner: owner.shared_field(),
        lease: lease.map_or(own_lease, Lease::get),
    };
    let min_replica_acks = match &held {
        Some((_, Some(held))) => held.min_replica_acks,
        _ => 0,
    };
    let (scripts, acks) = core.replicated(min_replica_acks);
    let sent_at = Instant::now();
    let renewals = scripts.renew(std::slice::from_ref(&renewal)).await;
    let renewed = match renewals.complete()?.first() {
        Some(Ok(renewed)) => *renewed,
        Some(Err(ownership)) => {
            if let Some(session) = &session {
                let reason = core.why_lost(session, &key, *ownership).await;
                session.lose(&core.deadlines, &key, reason);
            }
            return Err(Error::NotOwner(*ownership));
        }
        None => return Err(CallError::Refused("a renewal without outcome".to_owned()).into()),
    };
    // A renewal that only the master knows of would be lost with it.
    let replica_acks = acks.acknowledged()?;
    let Some(session) = session else {
        return Ok(Answer::Renewed(Grant {
            name: name.clone(),
            mode: *mode,
            owner: owner.clone(),
            hold_count: renewed.hold_count,
            fencing_token: renewed.token,
            serial: renewed.serial,
            lease: renewed.lease,
            safe_until: safe_until(sent_at, renewed.lease),
            watched: false,
            replica_acks,
            min_replica_acks,
        }));
    };
    session
        .renewed_by_client(&core.deadlines, &key, sent_at, renewed.lease)
        .and_then(|holding| holding.lock().cloned())
        .map(|grant| {
            Answer::Renewed(Grant {
                replica_acks,
                ..grant
            })
        })
        .ok_or(Error::NotOwner(Ownership::Expired))
}

async fn check_token(core: &Core, name: &LockName, token: u64) -> Result<Answer, Error> {
    let seen = core.scripts.inspect(name.as_str(), 0).await?;
    Ok(Answer::TokenChecked(TokenChecked {
        current: token != 0 && token == seen.token,
        last: seen.token,
        held: seen.holder_count > 0,
    }))
}

// === impl Core ===

impl Core {
    /// What the store knows of a lock that the caller does not hold.
    async fn ownership(&self, name: &LockName) -> Result<Ownership, CallError> {
        let seen = self.scripts.inspect(name.as_str(), 0).await?;
        Ok(match (seen.holder_count, seen.token) {
            (0, 0) => Ownership::NeverHeld,
            (0, _) => Ownership::Expired,
            _ => Ownership::HeldByAnother,
        })
    }
}

// === impl Acquire ===

impl Acquire {
    /// What it is to the scripts.
    pub(crate) fn hold(&self) -> Hold<'_> {
        Hold::new(self.name.as_str(), self.mode, self.owner.field())
    }
}

// === impl Operation ===

impl Operation {
    /// For logs and task names.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Acquire(_) => "acquire",
            Self::TryAcquire(_) => "try_acquire",
            Self::AcquireAll(_) => "acquire_all",
            Self::TryAcquireAll(_) => "try_acquire_all",
            Self::Release(_) => "release",
            Self::ReleaseAll(_) => "release_all",
            Self::Renew(_) => "renew",
            Self::Describe(_) => "describe",
            Self::CheckToken(..) => "check_token",
            Self::Permits(operation) => operation.name(),
            Self::Latch(operation) => operation.name(),
        }
    }

    /// Whether it can be cancelled because it may wait.
    pub fn waits(&self) -> bool {
        matches!(
            self,
            Self::Acquire(_)
                | Self::AcquireAll(_)
                | Self::Permits(PermitOperation::Acquire(_))
                | Self::Latch(LatchOperation::Await(_))
        )
    }
}

// === impl Reply ===

impl Reply {
    /// To nobody.
    fn unheard() -> Self {
        Self {
            op_id: 0,
            to: AnswersTo::Mailbox(mailbox().0),
            cancel: None,
            slot: None,
            account: Account::default(),
        }
    }

    /// Tells of a wait if that can be done without waiting and leaves room for the last answer.
    pub(super) fn waiting(&self, waiting: Waiting) -> bool {
        self.tell(Answer::Waiting(waiting))
    }

    /// Tells of a wait for several locks, which is for this one now.
    pub(super) fn waiting_for(&self, name: &LockName, waiting: Waiting) -> bool {
        self.tell(Answer::WaitingForAll(name.clone(), waiting))
    }

    pub(super) fn tell(&self, answer: Answer) -> bool {
        match &self.to {
            AnswersTo::Queue(queue) => {
                queue.capacity() > 1 && queue.try_send((self.op_id, answer)).is_ok()
            }
            AnswersTo::Mailbox(mailbox) => mailbox.tell(answer),
        }
    }

    /// Gives the last answer. If nobody listens, it is dropped, and a grant in it is given back.
    async fn finish(self, answer: Result<Answer, Error>) {
        let answer = answer.unwrap_or_else(Answer::Failed);
        match &self.to {
            AnswersTo::Queue(queue) => drop(queue.send((self.op_id, answer)).await),
            AnswersTo::Mailbox(mailbox) => mailbox.finish(answer),
        }
    }

    /// Resolves when nobody wants the answer any more.
    pub(super) async fn gone(&self) {
        match &self.cancel {
            None => self.to.closed().await,
            Some(cancel) => tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = self.to.closed() => {}
            },
        }
    }
}

// === impl AnswersTo ===

impl From<mpsc::Sender<(u64, Answer)>> for AnswersTo {
    fn from(queue: mpsc::Sender<(u64, Answer)>) -> Self {
        Self::Queue(queue)
    }
}

impl AnswersTo {
    async fn closed(&self) {
        match self {
            Self::Queue(queue) => queue.closed().await,
            Self::Mailbox(mailbox) => mailbox.closed().await,
        }
    }
}

// === impl NotGranted ===

impl NotGranted {
    pub(super) fn timed_out(holder_until: Option<Instant>) -> Self {
        Self {
            cancelled: false,
            holder_until,
        }
    }

    pub(super) fn cancelled() -> Self {
        Self {
            cancelled: true,
            holder_until: None,
        }
    }

    pub(super) fn is_timeout(self) -> bool {
        !self.cancelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of an acquire while it waits, besides its place in line.
    const WAIT_BYTES_MAX: usize = 2048;

    fn size_of_run<F>(_: impl Fn(Arc<Core>, Operation, Reply) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_wait_keeps_nothing_of_its_attempts() {
        let bytes = size_of_run(run);
        assert!(bytes <= WAIT_BYTES_MAX, "{bytes}");
    }
}
