//! Ends sessions: as their clients ask, or by force. No resume token brings them back.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use tokio::time::timeout;

use crate::{
    admin::Reason,
    coordinator::Coordinator,
    core::{Core, RELEASES_MAX},
    session::session::Session,
    types::{Holding, LockName},
};

/// How long a call may keep its turn. One that a store does not answer must not keep those of
/// other stores waiting.
const TURN_MAX: Duration = Duration::from_secs(1);

/// Which sessions an operator means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionsOf {
    /// The one with this digest.
    Digest(String),
    /// All of this identity; empty: those without one.
    Identity(String),
}

/// What a forced end of sessions took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionsEnded {
    /// The sessions.
    pub sessions: usize,
    /// Their grants, of locks and of permits.
    pub grants: usize,
}

// === impl Coordinator ===

impl Coordinator {
    /// The sessions of this coordinator, live and detached, that are meant.
    pub fn sessions_of(&self, meant: &SessionsOf) -> Vec<Arc<Session>> {
        let mut sessions = self.core.sessions.all();
        sessions.retain(|session| match meant {
            SessionsOf::Digest(digest) => session.id.digest() == *digest,
            SessionsOf::Identity(identity) => session.account.identity().as_str() == identity,
        });
        sessions
    }

    /// Ends sessions by force, notifies their clients, and releases what they held. Returns when
    /// the store has answered; dropping the future does not stop that.
    pub async fn end_sessions(
        &self,
        sessions: Vec<Arc<Session>>,
        reason: &Reason,
    ) -> SessionsEnded {
        let (core, reason) = (Arc::clone(&self.core), reason.clone());
        let work = Box::pin(async move { core.end_by_force(sessions, &reason).await });
        self.core.tasks.detach_on_drop("end_sessions", work).await
    }
}

// === impl Core ===

impl Core {
    /// Ends a session and releases what it held.
    pub(crate) async fn end(self: &Arc<Self>, session: &Arc<Session>) {
        if let Some(grants) = session.end(&self.deadlines) {
            self.ended(session, grants).await;
        }
    }

    async fn end_by_force(
        self: &Arc<Self>,
        sessions: Vec<Arc<Session>>,
        reason: &Reason,
    ) -> SessionsEnded {
        // None goes on while the store answers for another.
        let ended = sessions.into_iter().filter_map(|session| {
            let grants = session.end_by_force(&self.deadlines, reason.as_str())?;
            Some((session, grants))
        });
        let ended: Vec<_> = ended.collect();
        let counts = SessionsEnded {
            sessions: ended.len(),
            grants: ended.iter().map(|(_, grants)| grants.len()).sum(),
        };
        let each = async |(session, grants)| self.ended(&session, grants).await;
        stream::iter(ended)
            .for_each_concurrent(RELEASES_MAX, each)
            .await;
        counts
    }

    async fn ended(self: &Arc<Self>, session: &Arc<Session>, grants: Vec<Holding>) {
        self.sessions.remove(session);
        tracing::debug!(session = %session.id.digest(), grants = grants.len(), "session ended");
        let (whose, digest) = (self.group_of(session), session.id.digest());
        let retention = self.config.resume_max;
        let end = || self.scripts.end_session(&whose, &digest, retention);
        let remember = async {
            let turn = self.ends.acquire().await;
            in_turn(turn, self.until_answered(session.lease, end)).await;
        };
        // A session waits for one turn at a time, so that one with many grants leaves turns to
        // others.
        let turns = stream::iter(grants).then(|grant| {
            let turn = Arc::clone(&self.releases).acquire_owned();
            async move { (turn.await, grant) }
        });
        let releases = turns.map(|(turn, grant)| {
            let core = Arc::clone(self);
            async move { in_turn(turn, core.release_all(&grant)).await }
        });
        let releases = releases.buffer_unordered(RELEASES_MAX);
        futures::join!(remember, releases.collect::<()>());
    }

    /// What the store remembers the ends of an identity's sessions under.
    fn group_of(&self, session: &Session) -> String {
        self.group(session.account.identity())
    }

    pub(crate) fn group(&self, identity: &lockkeeper_access::Identity) -> String {
        [&self.config.limits.key_prefix, identity.mark()].concat()
    }
}

/// Does a part of ending a session. The turn is over when that is done or takes long.
async fn in_turn<T>(turn: T, work: impl Future) {
    let mut work = pin!(work);
    if timeout(TURN_MAX, &mut work).await.is_err() {
        drop(turn);
        work.await;
    }
}

// === impl Session ===

impl Session {
    /// The names that it holds; none if it holds nothing, or waits for something.
    pub fn names(&self) -> Option<Vec<LockName>> {
        let state = self.state.lock();
        let names: Vec<_> = state.grants.keys().map(|key| key.name.clone()).collect();
        (state.waits == 0 && !names.is_empty()).then_some(names)
    }
}
