//! The sessions of a coordinator.

use std::{collections::HashMap, sync::Arc, time::Duration};

use foldhash::fast::RandomState;
use lockkeeper_access::{Account, Quota};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::{
    config::Config,
    error::{Error, Limit},
    events::Events,
    metrics::families::{SessionTally, Shared},
    resume_token::Claims,
    session::session::{Deadlines, Session},
    types::SessionId,
};

/// Minimum interval between sweeps of sessions without a grant that make room for new ones.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Room for this many sessions is always kept.
const ROOM_KEPT: usize = 1024;

/// The session registry.
#[derive(Debug)]
pub(crate) struct Sessions {
    by_id: RwLock<HashMap<SessionId, Arc<Session>, RandomState>>,
    max: usize,
    /// The room for the grants of each.
    grants_max: usize,
    /// The last sweep.
    swept: Mutex<Option<Instant>>,
    /// The epoch of the sessions' common renewal moments.
    epoch: Instant,
    events: Arc<Events>,
    metrics: Shared,
}

// === impl Sessions ===

impl Sessions {
    pub(crate) fn new(config: &Config, events: Arc<Events>, metrics: &Shared) -> Self {
        let by_id = RwLock::default();
        Self {
            by_id,
            max: config.limits.sessions_max,
            grants_max: config.limits.grants_per_session_max,
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

    /// The number of sessions and of their holdings.
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
            // All sessions may end at once.
            if by_id.capacity() > 2 * ROOM_KEPT && by_id.len() < by_id.capacity() / 8 {
                let room = (2 * by_id.len()).max(ROOM_KEPT);
                by_id.shrink_to(room);
            }
            self.ended(session);
        }
    }

    /// A new session, or the one with this id that another resume has just added.
    pub(crate) fn add(
        &self,
        id: SessionId,
        claims: Claims,
        account: Account,
        deadlines: &Deadlines,
    ) -> Result<Arc<Session>, Error> {
        let counted = account.count(Quota::Sessions, 1)?;
        let mut by_id = self.by_id.write();
        if let Some(known) = by_id.get(&id).filter(|known| !known.has_ended()) {
            return Ok(Arc::clone(known));
        }
        if by_id.len() >= self.max && self.may_sweep() {
            by_id.retain(|_, session| {
                let has_ended = session.end_if_empty(deadlines);
                if has_ended {
                    self.ended(session);
                }
                !has_ended
            });
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
            self.grants_max,
            self.epoch,
            Arc::clone(&self.events),
            Arc::clone(&self.metrics),
        ));
        by_id.insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// Its events are kept, so its name is, too.
    fn ended(&self, session: &Session) {
        if let Some(history) = self.events.history() {
            history.keep_client(&session.id, &session.client_name);
        }
    }

    /// Limits sweeps: each one walks all sessions, so opening many in a row must not repeat it.
    fn may_sweep(&self) -> bool {
        let mut swept = self.swept.lock();
        let may = swept.is_none_or(|swept| swept.elapsed() >= SWEEP_INTERVAL);
        if may {
            *swept = Some(Instant::now());
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper_access::{Account, Identity, Quotas};

    use crate::{
        coordinator::Coordinator,
        error::{Error, Limit},
        resume_token::Claims,
        stream::Opened,
        testing::{MILLI, account, config, start},
        types::{OnDisconnect, SessionId},
    };

    fn open(coordinator: &Coordinator) -> Result<Opened, Error> {
        let account = Account::from(Identity::named("ci"));
        coordinator.open(account, None, "ci".to_owned(), OnDisconnect::Keep)
    }

    /// Its client may come back, but it has nothing.
    async fn idle(coordinator: &Coordinator) {
        drop(open(coordinator).unwrap());
        tokio::task::yield_now().await;
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_that_have_nothing_make_room_for_others_at_most_once_a_second() {
        let coordinator = start(config());
        let max = coordinator.limits().sessions_max;
        let full = Error::LimitReached(Limit::Sessions);
        let mut sessions: Vec<_> = (1..max).map(|_| open(&coordinator).unwrap()).collect();
        idle(&coordinator).await;
        assert_eq!(coordinator.load().sessions, max);
        sessions.push(open(&coordinator).unwrap());
        assert_eq!(coordinator.load().sessions, max);
        assert_eq!(open(&coordinator).err(), Some(full.clone()));
        sessions.pop();
        tokio::task::yield_now().await;
        tokio::time::advance(MILLI * 999).await;
        assert_eq!(open(&coordinator).err(), Some(full), "not looked for again");
        tokio::time::advance(MILLI).await;
        assert!(open(&coordinator).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn two_resumes_at_once_add_one_session() {
        let coordinator = start(config());
        let (sessions, deadlines) = (&coordinator.core.sessions, &coordinator.core.deadlines);
        let id = SessionId::random();
        let add = || {
            let claims = Claims {
                lease: MILLI,
                on_disconnect: OnDisconnect::Keep,
                client_name: String::new(),
            };
            let account = Account::from(Identity::named("ci"));
            sessions
                .add(id.clone(), claims, account, deadlines)
                .unwrap()
        };
        let first = add();
        assert!(Arc::ptr_eq(&first, &add()));
        first.attach(deadlines);
        first.end(deadlines);
        assert!(!Arc::ptr_eq(&first, &add()), "it has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_has_ended_counts_no_more_whatever_is_still_done_for_it() {
        let coordinator = start(config());
        let quotas = Quotas {
            sessions: 1,
            ..Quotas::default()
        };
        let caller = account(quotas);
        let open = || {
            let (caller, name) = (caller.clone(), String::new());
            coordinator.open(caller, None, name, OnDisconnect::Keep)
        };
        let first = open().unwrap();
        let _undo_of_it = Arc::clone(&first.stream.session);
        assert!(open().is_err());
        first.stream.close().await;
        assert!(open().is_ok());
    }
}
