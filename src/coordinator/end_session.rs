//! Ends sessions: as their clients ask, or by force. No resume token brings them back.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

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

/// How long a close waits until the store remembers it. After that it is remembered in the
/// background.
const REMEMBERED_WITHIN: Duration = Duration::from_millis(100);

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
            let remembered = self.ended(session, grants).await;
            // The record may be where the store does not answer, though what was held is elsewhere.
            let _ = timeout(REMEMBERED_WITHIN, remembered).await;
            // It no longer relies on these either.
            let closed = std::mem::take(&mut session.state.lock().closed);
            for (grant, until) in &closed {
                if let Some(grant) = grant.lock().filter(|_| *until > Instant::now()) {
                    self.acknowledge_forced(&grant.name, grant.mode, &grant.owner)
                        .await;
                }
            }
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
        let each = async |(session, grants)| drop(self.ended(&session, grants).await.await);
        stream::iter(ended)
            .for_each_concurrent(RELEASES_MAX, each)
            .await;
        counts
    }

    /// Releases what a session held. Returns when the store has answered; the task ends when it
    /// remembers the end.
    async fn ended(
        self: &Arc<Self>,
        session: &Arc<Session>,
        grants: Vec<Holding>,
    ) -> JoinHandle<()> {
        self.sessions.remove(session);
        tracing::debug!(session = %session.id.digest(), grants = grants.len(), "session ended");
        let (core, ended) = (Arc::clone(self), Arc::clone(session));
        let remembered = async move { core.remember_end(&ended).await };
        let remembered = self.tasks.spawn("remember_end", remembered);
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
        releases
            .buffer_unordered(RELEASES_MAX)
            .collect::<()>()
            .await;
        remembered
    }

    /// Has the store remember that a session has ended.
    async fn remember_end(&self, session: &Session) {
        let (whose, digest) = (self.group_of(session), session.id.digest());
        let retention = self.config.resume_max;
        let end = || self.scripts.end_session(&whose, &digest, retention);
        let turn = self.ends.acquire().await;
        in_turn(turn, self.until_answered(session.lease, end)).await;
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

#[cfg(test)]
mod tests {
    use lockkeeper_store::script::Mode;

    use super::*;
    use crate::testing::{
        Fault, MILLI, SECOND, acquire, config, granted, holders, in_session, open, start_faulty,
    };

    #[tokio::test(start_paused = true)]
    async fn a_close_waits_for_releases_and_not_for_long_for_the_record_of_the_end() {
        let (faults, coordinator, _store) = start_faulty(config());
        let opened = open(&coordinator);
        let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
        granted(&coordinator, &request).await.take().unwrap();
        faults.next("session_end", Fault::Unavailable);
        faults.next("session_end", Fault::AnswerTakes(SECOND * 5));
        let begun = Instant::now();
        opened.stream.close().await;
        assert!(begun.elapsed() <= REMEMBERED_WITHIN + MILLI);
        assert_eq!(holders(&coordinator.core, "a").await.len(), 0);
        tokio::time::sleep(SECOND * 6).await;
        let session = &opened.stream.session;
        let (core, digest) = (&coordinator.core, session.id.digest());
        let group = core.group_of(session);
        assert_eq!(
            core.scripts.has_session_ended(&group, &digest).await,
            Ok(true)
        );
    }
}
