//! The stream that serves a session: opening it, closing it, and what a broken one leaves behind.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::{Account, Identity};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    coordinator::Coordinator,
    core::Core,
    error::Error,
    resume_token::Claims,
    session::{
        notices::{EndedByForce, Notice},
        session::Session,
    },
    types::{Grant, Holding, Lease, LockName, OnDisconnect, PermitGrant, SessionId},
};

/// New resume tokens of a session that lives, in the time after which the first ends.
const RESUME_TOKENS: u32 = 4;

/// A session at its beginning.
#[derive(Debug)]
pub struct Opened {
    /// The session, served by this stream.
    pub stream: Stream,
    /// Proves that the session is the caller's.
    pub resume_token: Vec<u8>,
    /// The locks that are still held after a resume.
    pub grants: Vec<Grant>,
    /// The permits that are still held after a resume.
    pub permits: Vec<PermitGrant>,
}

/// The stream that serves a session. Dropping it without [`Stream::close`] is a broken stream.
#[derive(Debug)]
pub struct Stream {
    core: Arc<Core>,
    pub(crate) session: Arc<Session>,
    token: CancellationToken,
}

// === impl Coordinator ===

impl Coordinator {
    /// Opens a session. It lives as long as the returned stream, and belongs to the account's
    /// identity.
    pub fn open(
        &self,
        account: Account,
        lease: Option<Lease>,
        client_name: String,
        on_disconnect: OnDisconnect,
    ) -> Result<Opened, Error> {
        let core = &self.core;
        core.check_serving()?;
        let client_name = core.config.limits.client_name(client_name)?;
        let lease = lease.map_or(core.config.lease, Lease::get);
        let claims = Claims {
            lease,
            on_disconnect,
            client_name,
        };
        let id = (core.config.session_id)();
        let session = core.sessions.add(id, claims, account, &core.deadlines)?;
        Ok(Opened {
            resume_token: core.resume_token(&session),
            stream: Stream::new(core, session).ok_or(Error::SessionNotFound)?,
            grants: Vec::new(),
            permits: Vec::new(),
        })
    }

    /// Whether this coordinator has the session, and this identity owns it.
    pub fn is_session_of(&self, id: &SessionId, identity: &Identity) -> bool {
        let session = self.core.sessions.get(id);
        session.is_ok_and(|session| session.account.identity() == identity)
    }
}

// === impl Core ===

impl Core {
    /// Releases what a session held and no longer has.
    pub(crate) async fn release_all(&self, grant: &Holding) {
        let _owner_lock = self.owner_locks.take(grant.name(), grant.owner()).await;
        match grant {
            Holding::Lock(grant) => {
                let (hold, lease) = (grant.hold(), grant.lease);
                let lower = || self.scripts.lower(hold, grant.serial, 0, lease);
                self.until_answered(grant.lease, lower).await;
            }
            Holding::Permits(grant) => self.give_permits_back(grant).await,
        }
    }

    pub(crate) fn release_later(self: &Arc<Self>, grant: Holding) {
        let core = Arc::clone(self);
        self.tasks
            .spawn("release", async move { core.release_all(&grant).await });
    }
}

// === impl Stream ===

impl Stream {
    /// None if the session has ended.
    pub(crate) fn new(core: &Arc<Core>, session: Arc<Session>) -> Option<Self> {
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

    /// The names that the session holds.
    pub fn names(&self) -> Vec<LockName> {
        let state = self.session.state.lock();
        let names = state.grants.keys().map(|key| key.name.clone());
        names.collect()
    }

    /// Whether its grants stay when the stream breaks.
    pub fn keeps_grants(&self) -> bool {
        self.session.on_disconnect == OnDisconnect::Keep
    }

    /// A new resume token, which ends later than the earlier ones.
    pub fn resume_token(&self) -> Vec<u8> {
        self.core.resume_token(&self.session)
    }

    /// How often the client should get a new resume token.
    pub fn resume_token_interval(&self) -> Duration {
        self.core.config.resume_max / RESUME_TOKENS
    }

    /// Sets its origin, for callers that list sessions.
    pub fn comes_from(&self, peer: super::PeerAddress) {
        self.session.comes_from(peer);
    }

    /// The next notice. See [`Session::notice`].
    pub async fn notice(&self) -> Result<Notice, EndedByForce> {
        self.session.notice().await
    }

    /// Cancelled when another stream has taken the session over, or when the session has ended.
    pub fn superseded(&self) -> &CancellationToken {
        &self.token
    }

    /// Ends the session: its waits end, and its grants are released. Returns when the store has
    /// answered; dropping the future does not stop that. Grants whose release does not reach the
    /// store run out.
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
        // A drain keeps the grants whatever the session requested: its client should resume
        // elsewhere.
        if session.on_disconnect == OnDisconnect::Release && !core.draining.is_cancelled() {
            core.tasks
                .clone()
                .spawn("end-session", async move { core.end(&session).await });
        } else {
            session.await_resume(&core.deadlines, until);
        }
    }
}
