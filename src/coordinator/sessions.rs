//! The sessions of one coordinator: open, resume, close, and what a broken stream leaves behind.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use lockkeeper_access::{Account, Identity, Quota};
use lockkeeper_store::script::{CallError, Mode, Ownership, PermitId, PermitRenewal, Renewal};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Config, Coordinator, Core,
    deadlines::Deadlines,
    error::{Error, Limit},
    events::Events,
    metrics,
    resume_token::Claims,
    session::{Session, SessionTally, notices::Notice},
    turns::Turn,
    types::{
        Grant, GrantKey, Holding, Invalid, Lease, LockName, LostReason, OnDisconnect, Owner,
        PermitGrant, SessionId, over, safe_until,
    },
    watchdog::RENEWALS_PER_CALL,
};

/// Releases of one ending session that are under way at once.
const RELEASES_AT_ONCE: usize = 64;

/// How often sessions that were left without a grant make room for new ones, at most.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The registry.
#[derive(Debug)]
pub(crate) struct Sessions {
    by_id: RwLock<HashMap<SessionId, Arc<Session>>>,
    max: usize,
    /// When sessions that nobody needs last made room for others.
    swept: Mutex<Option<Instant>>,
    /// From here the sessions count their common moments.
    epoch: Instant,
    events: Arc<Events>,
    metrics: metrics::Shared,
}

/// What the client of a session is told at its beginning.
#[derive(Debug)]
pub struct Opened {
    /// The session, served by this stream.
    pub stream: Stream,
    /// Shows that the session is the caller's.
    pub resume_token: Vec<u8>,
    /// The locks that are still held, after a resume.
    pub grants: Vec<Grant>,
    /// The same of permits.
    pub permits: Vec<PermitGrant>,
}

/// A grant that a resuming client believes to hold.
#[derive(Clone, Debug)]
pub struct ResumedGrant {
    /// The lock.
    pub name: LockName,
    /// How it is held.
    pub mode: Mode,
    /// The owner within the session.
    pub owner: Owner,
    /// Whether the watchdog renews it.
    pub watched: bool,
    /// What the client was told, for the notice if it is lost.
    pub fencing_token: u64,
    /// What the client was told, for the notice if it is lost.
    pub hold_count: u32,
}

/// Permits of one grant that a resuming client believes to hold.
#[derive(Clone, Debug)]
pub struct ResumedPermits {
    /// The semaphore.
    pub name: LockName,
    /// The owner within the session.
    pub owner: Owner,
    /// The permits.
    pub ids: Arc<[PermitId]>,
    /// Whether the watchdog renews them.
    pub watched: bool,
}

/// All that a resuming client believes to hold.
#[derive(Clone, Debug, Default)]
pub struct Resumed {
    /// Locks.
    pub locks: Vec<ResumedGrant>,
    /// Permits.
    pub permits: Vec<ResumedPermits>,
}

/// A grant that was looked at in the store: as it is, when that was asked, and why it is gone if it
/// is.
type Checked = (Holding, Instant, Result<(), Ownership>);

/// The stream that serves a session. Dropping it without [`Stream::close`] is a broken stream.
#[derive(Debug)]
pub struct Stream {
    core: Arc<Core>,
    session: Arc<Session>,
    token: CancellationToken,
}

// === impl Sessions ===

impl Sessions {
    pub(crate) fn new(config: &Config, events: Arc<Events>, metrics: &metrics::Shared) -> Self {
        let by_id = RwLock::default();
        Self {
            by_id,
            max: config.limits.sessions_max,
            swept: Mutex::default(),
            epoch: Instant::now(),
            events,
            metrics: Arc::clone(metrics),
        }
    }

    pub(crate) fn get(&self, id: &SessionId) -> Result<Arc<Session>, Error> {
        self.by_id
            .read()
            .get(id)
            .cloned()
            .ok_or(Error::SessionNotFound)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.by_id.read().values().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.by_id.read().len()
    }

    /// How many there are, and what they hold together.
    pub(crate) fn tally(&self) -> SessionTally {
        let mut tally = SessionTally::default();
        for session in self.all() {
            session.count_in(&mut tally);
        }
        tally
    }

    pub(crate) fn remove(&self, session: &Arc<Session>) {
        let mut by_id = self.by_id.write();
        if by_id
            .get(&session.id)
            .is_some_and(|known| Arc::ptr_eq(known, session))
        {
            by_id.remove(&session.id);
        }
    }

    fn add(
        &self,
        id: SessionId,
        claims: Claims,
        account: Account,
        deadlines: &Deadlines,
    ) -> Result<Arc<Session>, Error> {
        let counted = account.count(Quota::Sessions)?;
        let mut by_id = self.by_id.write();
        if by_id.len() >= self.max && self.may_sweep() {
            by_id.retain(|_, session| !session.end_if_empty(deadlines));
            by_id.shrink_to(self.max / 2);
        }
        if by_id.len() >= self.max {
            self.metrics.limited(Limit::Sessions);
            return Err(Error::LimitReached(Limit::Sessions));
        }
        let session = Arc::new(Session::new(
            id.clone(),
            claims,
            (account, counted),
            self.epoch,
            Arc::clone(&self.events),
            Arc::clone(&self.metrics),
        ));
        by_id.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Looking at all of them takes a while, so whoever opens one after the other does not have it
    /// done each time.
    fn may_sweep(&self) -> bool {
        let mut swept = self.swept.lock();
        let may = swept.is_none_or(|swept| swept.elapsed() >= SWEEP_INTERVAL);
        if may {
            *swept = Some(Instant::now());
        }
        may
    }
}

// === impl Coordinator ===

impl Coordinator {
    /// Opens a session. It lives as long as the stream that is returned, and belongs to the
    /// account's identity.
    pub fn open(
        &self,
        account: Account,
        lease: Option<Lease>,
        client_name: String,
        on_disconnect: OnDisconnect,
    ) -> Result<Opened, Error> {
        let core = &self.core;
        if core.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        if let Some(why) = over(&client_name, core.config.limits.client_name_bytes_max) {
            return Err(Invalid::new("client_name", why).into());
        }
        let lease = lease.map_or(core.config.lease, Lease::get);
        let claims = Claims {
            lease,
            on_disconnect,
            client_name,
        };
        let id = SessionId::random();
        let resume_token = claims.sign(&core.config.session_secret, &id, account.identity());
        let session = core.sessions.add(id, claims, account, &core.deadlines)?;
        Ok(Opened {
            stream: Stream::new(core, session).ok_or(Error::SessionNotFound)?,
            resume_token,
            grants: Vec::new(),
            permits: Vec::new(),
        })
    }

    /// Whether there is such a session here, and it is this identity's.
    pub fn is_session_of(&self, id: &SessionId, identity: &Identity) -> bool {
        let session = self.core.sessions.get(id);
        session.is_ok_and(|session| session.account.identity() == identity)
    }

    /// Goes on with a session, whether this coordinator knows it or not. The grants that the client
    /// names are checked by renewing them; grants of the session that it does not name are
    /// released, since nobody would give them back. An error leaves the session as it was.
    pub async fn resume(
        &self,
        account: Account,
        id: &SessionId,
        resume_token: &[u8],
        named: Resumed,
    ) -> Result<Opened, Error> {
        let core = &self.core;
        if core.draining.is_cancelled() {
            return Err(Error::Draining);
        }
        let Config {
            limits,
            session_secret,
            ..
        } = &core.config;
        let whose = account.identity();
        let claims = Claims::verify(resume_token, session_secret, id, whose, limits)
            .ok_or(Error::ResumeTokenInvalid)?;
        if named.locks.len() + named.permits.len() > limits.grants_per_session_max {
            return Err(Error::LimitReached(Limit::GrantsPerSession));
        }
        // Another coordinator would release the grants of such a session whenever it notices that
        // its own stream of it broke.
        if claims.on_disconnect == OnDisconnect::Release {
            core.sessions.get(id)?.live()?;
        }
        // What is under way for these grants comes to its end before they are looked at, and what
        // comes later knows that they were confirmed.
        let turns = core.turns_of(&named).await?;
        let mut checked = core.check(&claims, named.locks).await?;
        checked.extend(core.check_permits(&claims, named.permits).await?);
        let reasons = core.why_all_gone(&checked).await;
        let known = core.sessions.get(id).ok();
        let resumed = known.and_then(|session| Stream::new(core, session));
        let stream = if let Some(stream) = resumed {
            stream
        } else {
            let session = core
                .sessions
                .add(id.clone(), claims, account, &core.deadlines)?;
            Stream::new(core, session).ok_or(Error::SessionNotFound)?
        };
        let session = Arc::clone(&stream.session);
        let known = session.grants();
        session.forget_losses();
        let (mut grants, mut permits) = (Vec::new(), Vec::new());
        let mut kept: HashSet<GrantKey> = HashSet::new();
        let mut kept_permits: HashSet<PermitId> = HashSet::new();
        for ((grant, sent_at, outcome), reason) in checked.into_iter().zip(reasons) {
            let key = GrantKey::of_holding(&grant);
            kept.insert(key.clone());
            if let Err(ownership) = outcome {
                let reason = reason.unwrap_or_else(|| ownership.into());
                session.lose_named(&core.deadlines, grant, reason);
                continue;
            }
            let deadlines = &core.deadlines;
            match grant {
                Holding::Lock(grant) => {
                    grants.push(session.register(deadlines, grant, None, sent_at)?.0);
                }
                Holding::Permits(grant) => {
                    kept_permits.extend(grant.ids.iter());
                    permits.push(session.register_permits(deadlines, grant, sent_at)?.0);
                }
            }
            session.confirm(&key);
        }
        drop(turns);
        for mut grant in known {
            let key = GrantKey::of_holding(&grant);
            let is_named = kept.contains(&key);
            if !is_named {
                session.set_holds(&core.deadlines, &key, 0, None);
            }
            match &mut grant {
                Holding::Lock(_) if is_named => continue,
                Holding::Lock(_) => {}
                // Of a grant the client may name some permits only, or name it while it has lost
                // some.
                Holding::Permits(grant) => {
                    let ids = grant.ids.iter().filter(|id| !kept_permits.contains(*id));
                    grant.ids = ids.copied().collect();
                }
            }
            core.release_later(grant);
        }
        tracing::debug!(session = %session.id.digest(), grants = grants.len(), "session resumed");
        Ok(Opened {
            stream,
            resume_token: resume_token.to_vec(),
            grants,
            permits,
        })
    }
}

// === impl Core ===

impl Core {
    /// The turns of all grants that a resuming client names, in an order that no two resumes can
    /// block each other with.
    async fn turns_of(&self, named: &Resumed) -> Result<Vec<Turn>, CallError> {
        let locks = named.locks.iter().map(|grant| (&grant.name, &grant.owner));
        let permits = named.permits.iter().map(|it| (&it.name, &it.owner));
        let keys: BTreeMap<(&LockName, &Arc<str>), &Owner> = locks
            .chain(permits)
            .map(|(name, owner)| ((name, &owner.label), owner))
            .collect();
        let mut turns = Vec::with_capacity(keys.len());
        for ((name, _), owner) in keys {
            turns.push(self.turn(name, owner).await?);
        }
        Ok(turns)
    }

    /// Renews what a resuming client names. Grants with a lease of their own are looked at without
    /// getting more of it.
    async fn check(
        &self,
        claims: &Claims,
        named: Vec<ResumedGrant>,
    ) -> Result<Vec<Checked>, CallError> {
        let mut checked = Vec::with_capacity(named.len());
        for batch in named.chunks(RENEWALS_PER_CALL) {
            let renewals: Vec<Renewal> = batch
                .iter()
                .map(|grant| Renewal {
                    name: grant.name.shared(),
                    mode: grant.mode,
                    owner: grant.owner.shared_field(),
                    lease: if grant.watched {
                        claims.lease
                    } else {
                        Duration::ZERO
                    },
                })
                .collect();
            let sent_at = Instant::now();
            let (scripts, acks) = self.replicated(0);
            let outcomes = scripts.renew(&renewals).await.complete()?;
            let replica_acks = acks.acknowledged()?;
            for (named, outcome) in batch.iter().zip(outcomes) {
                let renewed = outcome.as_ref().ok();
                let lease = renewed.map_or(Duration::ZERO, |renewed| renewed.lease);
                let grant = Grant {
                    name: named.name.clone(),
                    mode: named.mode,
                    owner: named.owner.clone(),
                    hold_count: renewed.map_or(named.hold_count, |renewed| renewed.hold_count),
                    fencing_token: renewed.map_or(named.fencing_token, |renewed| renewed.token),
                    serial: renewed.map_or(0, |renewed| renewed.serial),
                    lease,
                    safe_until: safe_until(sent_at, lease),
                    watched: named.watched,
                    replica_acks,
                    min_replica_acks: 0,
                };
                checked.push((Holding::Lock(grant), sent_at, outcome.map(drop)));
            }
        }
        Ok(checked)
    }

    /// The same of permits.
    async fn check_permits(
        &self,
        claims: &Claims,
        named: Vec<ResumedPermits>,
    ) -> Result<Vec<Checked>, CallError> {
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let renewals = named.iter().map(|permits| PermitRenewal {
            name: permits.name.shared(),
            owner: permits.owner.shared_field(),
            lease: if permits.watched {
                claims.lease
            } else {
                Duration::ZERO
            },
            ids: Arc::clone(&permits.ids),
        });
        let renewals: Vec<_> = renewals.collect();
        let sent_at = Instant::now();
        let (scripts, acks) = self.replicated(0);
        let outcomes = scripts.renew_permits(&renewals).await.complete()?;
        let replica_acks = acks.acknowledged()?;
        let checked = named.into_iter().zip(outcomes).map(|(permits, outcome)| {
            let lease = outcome.unwrap_or_default();
            let grant = PermitGrant {
                name: permits.name,
                owner: permits.owner,
                ids: permits.ids,
                serial: 0,
                lease,
                safe_until: safe_until(sent_at, lease),
                watched: permits.watched,
                replica_acks,
                min_replica_acks: 0,
            };
            (Holding::Permits(grant), sent_at, outcome.map(drop))
        });
        Ok(checked.collect())
    }

    /// For each of them that is gone, why; all are asked for at once.
    async fn why_all_gone(&self, checked: &[Checked]) -> Vec<Option<LostReason>> {
        let reasons = checked.iter().map(|(grant, _, outcome)| async {
            match outcome {
                Err(ownership) => Some(self.why_gone(grant, *ownership).await),
                Ok(()) => None,
            }
        });
        futures::future::join_all(reasons).await
    }

    /// Gives back what a session held and no longer has.
    async fn release_all(&self, grant: &Holding) {
        let _turn = self.turns.take(grant.name(), grant.owner()).await;
        match grant {
            Holding::Lock(grant) => {
                let lower = || self.scripts.lower(grant.hold(), grant.serial, 0);
                self.until_answered(grant.lease, lower).await;
            }
            Holding::Permits(grant) => self.give_permits_back(grant).await,
        }
    }

    fn release_later(self: &Arc<Self>, grant: Holding) {
        let core = Arc::clone(self);
        self.tasks
            .spawn("release", async move { core.release_all(&grant).await });
    }

    /// Ends a session and gives back what it held.
    async fn end(self: &Arc<Self>, session: &Arc<Session>) {
        let Some(grants) = session.end(&self.deadlines) else {
            return;
        };
        self.sessions.remove(session);
        tracing::debug!(session = %session.id.digest(), grants = grants.len(), "session ended");
        let releases = stream::iter(grants).map(|grant| {
            let core = Arc::clone(self);
            async move { core.release_all(&grant).await }
        });
        releases
            .buffer_unordered(RELEASES_AT_ONCE)
            .collect::<()>()
            .await;
    }
}

// === impl Stream ===

impl Stream {
    /// None if the session has ended.
    fn new(core: &Arc<Core>, session: Arc<Session>) -> Option<Self> {
        let token = session.attach(&core.deadlines)?;
        let core = Arc::clone(core);
        Some(Self {
            core,
            session,
            token,
        })
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.session.id
    }

    /// The lease of its watched grants.
    pub fn lease(&self) -> Duration {
        self.session.lease
    }

    /// Says where it comes from, for those who look at sessions.
    pub fn comes_from(&self, peer: super::PeerAddress) {
        self.session.comes_from(peer);
    }

    /// The next notice. See [`Session::notice`].
    pub async fn notice(&self) -> Notice {
        self.session.notice().await
    }

    /// Cancelled when another stream has taken the session over, or when the session has ended.
    pub fn superseded(&self) -> &CancellationToken {
        &self.token
    }

    /// Ends the session: its waits end, its grants are released. Returns when the store has been
    /// told; dropping the future does not stop that. Grants that it cannot be told of run out.
    pub async fn close(&self) {
        if self.token.is_cancelled() {
            return;
        }
        let (core, session) = (Arc::clone(&self.core), Arc::clone(&self.session));
        let end = core
            .tasks
            .clone()
            .spawn("end-session", async move { core.end(&session).await });
        let _ = end.await;
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let (core, session) = (Arc::clone(&self.core), Arc::clone(&self.session));
        let until = Instant::now() + session.lease;
        if !session.detach(&self.token, until) {
            return;
        }
        tracing::debug!(session = %session.id.digest(), "stream broke");
        // A drain keeps the grants whatever the session wished: its client is to resume elsewhere.
        if session.on_disconnect == OnDisconnect::Release && !core.draining.is_cancelled() {
            core.tasks
                .clone()
                .spawn("end-session", async move { core.end(&session).await });
        } else {
            session.await_resume(&core.deadlines, until);
        }
    }
}
