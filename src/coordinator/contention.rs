//! Who waits for whom, as far as this coordinator knows.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use lockkeeper_store::script::{Mode, NameKind};

use crate::{
    admin::{LOOKS_AT_ONCE, LockSeen},
    coordinator::Coordinator,
    end_session::SessionsOf,
    error::Error,
    session::seen::SessionSeen,
    standing::Standing,
    types::Goal,
    why::Deadlocked,
};

pub use crate::{metrics::contention::ContendedName, waiters::seen::Contended};

/// Holdings and waits that are shown of a session.
const SHOWN_MAX: usize = 1000;

/// A session with what it holds and waits for.
#[derive(Clone, Debug)]
pub struct SessionShown {
    /// The session.
    pub seen: SessionSeen,
    /// The first of its holdings, at most 1,000.
    pub holdings: Vec<Standing>,
    /// The first of its waits, at most 1,000.
    pub waits: Vec<Standing>,
}

// === impl Coordinator ===

impl Coordinator {
    /// A session of this coordinator; none if there is none with this digest.
    pub fn session(&self, digest: &str) -> Option<SessionShown> {
        let meant = SessionsOf::Digest(digest.to_owned());
        let session = self.sessions_of(&meant).into_iter().next()?;
        Some(SessionShown {
            seen: session.seen(),
            holdings: session.holdings(SHOWN_MAX),
            waits: self.core.waiters.of_session(&session.id, SHOWN_MAX),
        })
    }

    /// The number of sessions with a grant whose last renewal failed.
    pub fn sessions_at_risk(&self) -> usize {
        self.core.sessions.tally().at_risk
    }

    /// The deadlocks that waits here are part of; of each, its waits in a circle.
    pub fn deadlocks(&self) -> Vec<Vec<Deadlocked>> {
        self.core.why.deadlocks()
    }

    /// The names that calls wait for here, the longest wait first.
    pub fn contended(&self) -> Vec<Contended> {
        self.core.waiters.contended()
    }

    /// The names that were contended most here, the most time waited first; at most 256.
    pub fn most_contended(&self) -> Vec<ContendedName> {
        self.core.metrics.contention.all()
    }

    /// The names with this beginning that calls wait for here, and how many do that are not in the
    /// store's queue. At most `max`, the longest wait first.
    pub fn waited_for(&self, prefix: &str, max: usize) -> Vec<(Contended, usize)> {
        let mut waited = self.contended();
        waited.retain(|it| it.name.public().starts_with(prefix));
        let waited = waited.into_iter().take(max).map(|it| {
            let (_, count) = self.core.waiters.list_for(&it.name, goal(&it), 0);
            (it, count)
        });
        waited.collect()
    }

    /// The first waits for a name here, at most `max` in each mode.
    pub fn waits_for(&self, name: &Contended, max: usize) -> Vec<Standing> {
        let (waiters, _) = self.core.waiters.list_for(&name.name, goal(name), max);
        waiters.iter().map(|waiter| waiter.standing()).collect()
    }

    /// Asks the store about names; one that is no longer in use is left out.
    pub async fn look_at(&self, names: &[Contended]) -> Result<Vec<LockSeen>, Error> {
        let names: Vec<_> = names.iter().map(|it| (it.name.clone(), it.kind)).collect();
        let looks = stream::iter(names).map(|(name, kind)| self.core.look(name, kind));
        let seen: Vec<_> = looks.buffered(LOOKS_AT_ONCE).try_collect().await?;
        Ok(seen.into_iter().flatten().collect())
    }
}

fn goal(name: &Contended) -> Goal {
    match name.kind {
        NameKind::Lock | NameKind::ReadWriteLock => Goal::Lock(Mode::Exclusive),
        NameKind::Semaphore => Goal::Permits,
        NameKind::Latch => Goal::Latch,
    }
}
