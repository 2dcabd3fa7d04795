//! The state that the parts of a coordinator share.

use std::{sync::Arc, time::Duration};

use either::Either;
use lockkeeper_access::{Account, Counted, Quota};
use lockkeeper_base::tasks::Tasks;
use lockkeeper_store::{
    host::Replicas,
    script::{CallError, Inspected, Mode, ReplicationStatus, Scripts, SemaphoreInspected},
};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    attempt_ids::Attempts,
    config::Config,
    election::shown::ElectionShown,
    error::Error,
    events::Events,
    follow::followed::Follows,
    looks::Looks,
    metrics::families::Shared,
    owner_lock::{OwnerLock, OwnerLocks},
    refusing::Refusing,
    session::{
        registry::Sessions,
        session::{Deadlines, Session},
    },
    sessionless::Sessionless,
    types::{Grant, GrantKey, Lease, LockName, Owner, SessionId},
    waiters::queue::Waiters,
    why::Board,
    yield_room::YieldRoom,
};

/// Sessions that are resumed at the same time. When a coordinator ends, all its sessions come to
/// the others at once; more calls than this would only wait for each other, until all are too late.
pub(crate) const RESUMES_MAX: usize = 256;

/// Calls for sessions that end, at the same time. When the clients of a whole service end, more
/// would only wait for each other in the store, and the renewals of all others would wait behind
/// them.
pub(crate) const RELEASES_MAX: usize = 64;

/// The state that the parts of a coordinator share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) started: Instant,
    pub(crate) scripts: Scripts,
    pub(crate) tasks: Tasks,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) elections: Arc<Follows<ElectionShown>>,
    pub(crate) sessions: Sessions,
    pub(crate) sessionless: Sessionless,
    pub(crate) deadlines: Deadlines,
    pub(crate) owner_locks: Arc<OwnerLocks>,
    /// Cancelled when no new waits are admitted and present ones must end.
    pub(crate) draining: CancellationToken,
    pub(crate) attempts: Attempts,
    pub(crate) events: Arc<Events>,
    pub(crate) metrics: Shared,
    pub(crate) lock_looks: Looks<Inspected>,
    pub(crate) semaphore_looks: Looks<SemaphoreInspected>,
    pub(crate) why: Board,
    /// The channel of messages to the coordinators of holders.
    pub(crate) holders_channel: String,
    /// Room for requests to yield.
    pub(crate) yields: YieldRoom,
    /// Room for resumes, first come, first served.
    pub(crate) resumes: Semaphore,
    /// Room for releases of sessions that end, in turns.
    pub(crate) releases: Arc<Semaphore>,
    /// The same for the records of their ends, which must not delay the releases.
    pub(crate) ends: Semaphore,
    /// Room for undoes after the lease of their attempt.
    pub(crate) late_undos: Semaphore,
    /// Servers of the store that take no writes.
    pub(crate) refusing: Refusing,
}

// === impl Core ===

impl Core {
    /// The scripts, for changes that the configured number of replicas must acknowledge, and no
    /// fewer than `at_least`.
    pub(crate) fn replicated(
        &self,
        at_least: u32,
    ) -> (Either<&Scripts, Box<Scripts>>, ReplicationStatus) {
        self.scripts.replicated(self.replicas(at_least))
    }

    pub(crate) fn waits_for_replicas(&self, at_least: u32) -> bool {
        self.replicas(at_least).is_some()
    }

    pub(crate) fn replicas(&self, at_least: u32) -> Option<Replicas> {
        let asked = (at_least > 0).then_some(Replicas {
            at_least,
            all: false,
        });
        match (self.config.replica_acks, asked) {
            (Some(policy), Some(asked)) => Some(policy.and(asked)),
            (policy, asked) => policy.or(asked),
        }
    }

    /// An error if no new waits are admitted.
    pub(crate) fn check_serving(&self) -> Result<(), Error> {
        if self.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        Ok(())
    }

    /// The session whose end ends a wait. It must be live.
    pub(crate) fn live_session(
        &self,
        id: Option<&SessionId>,
    ) -> Result<Option<Arc<Session>>, Error> {
        let session = id.map(|id| self.sessions.get(id)).transpose()?;
        if let Some(session) = &session {
            session.live()?;
        }
        Ok(session)
    }

    /// The session of an owner.
    pub(crate) fn session_of(&self, owner: &Owner) -> Result<Option<Arc<Session>>, Error> {
        let session = owner.session.as_ref();
        session.map(|id| self.sessions.get(id)).transpose()
    }

    /// Counts new grants of a caller before the store is asked, so that concurrent attempts do not
    /// exceed the quota together.
    pub(crate) fn reserve(&self, account: &Account, grants: usize) -> Result<Counted, Error> {
        self.sessionless.forget_ended();
        let grants = u32::try_from(grants).unwrap_or(u32::MAX);
        Ok(account.count(Quota::Grants, grants)?)
    }

    /// Whether a caller may have one more grant.
    pub(crate) fn has_room(&self, account: &Account) -> bool {
        self.sessionless.forget_ended();
        account.has_room(Quota::Grants)
    }

    /// The lease of a new grant: the requested one, otherwise that of the session or the default.
    pub(crate) fn lease_of_new(
        &self,
        session: Option<&Arc<Session>>,
        requested: Option<Lease>,
    ) -> Duration {
        let own = session.map_or(self.config.lease, |session| session.lease);
        requested.map_or(own, Lease::get)
    }

    /// The lease of what remains of a grant, or of its renewal.
    pub(crate) fn lease_of_held(
        &self,
        session: Option<&Arc<Session>>,
        held: Option<&Grant>,
    ) -> Duration {
        match (session, held) {
            (Some(session), Some(held)) if held.watched => session.lease,
            (_, Some(held)) => held.lease,
            (_, None) => self.config.lease,
        }
    }

    /// Waits for the owner lock on a lock; the owner's own attempt in doubt may still hold it.
    pub(crate) async fn owner_lock(
        &self,
        name: &LockName,
        owner: &Owner,
    ) -> Result<OwnerLock, CallError> {
        let at_most = self.config.call_timeout;
        let owner_lock = self.owner_locks.take_within(at_most, name, owner).await;
        owner_lock.ok_or_else(|| {
            let why = "an earlier operation of this owner is still in doubt";
            CallError::Unavailable(why.to_owned())
        })
    }

    /// Since when an owner holds a lock in this mode, or else permits, if it has a session here.
    pub(crate) fn holds_since(
        &self,
        name: &LockName,
        mode: Option<Mode>,
        owner: &Owner,
    ) -> Option<Instant> {
        let session = self.session_of(owner).ok()??;
        match mode {
            Some(mode) => session.held_since(&GrantKey::new(name, mode, &owner.label)),
            None => session.permits_since(name, &owner.label),
        }
    }

    /// The client name of an owner's session, if it is connected here.
    pub(crate) fn client_name(&self, owner: &Owner) -> String {
        let known = |id: &SessionId| self.sessions.get(id).ok();
        let session = owner.session.as_ref().and_then(known);
        session.map_or_else(String::new, |session| session.client_name.clone())
    }
}
