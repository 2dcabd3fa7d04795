//! The watchdog: one task and one queue of deadlines. It renews watched grants a third of their
//! lease after the last renewal, many in one call. It detects losses by the clock, even when the
//! store is silent, and it watches the store's clock.

use std::{
    collections::{BTreeMap, HashMap},
    iter,
    sync::Arc,
    time::Duration,
};

use lockkeeper_store::{
    host::Partition,
    script::{PermitRenewal, PermitRenewals, Renewal, ReplicationStatus, StoreClock},
};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::JoinHandle, time::Instant};

use crate::{
    core::Core,
    session::{
        session::{Due, Session},
        watched::{LeaseRenewal, Renewing},
    },
    types::{GrantKey, SessionId},
};

/// Holds per renewal script: as many as Redisson's, so that no script blocks the store for long.
pub(crate) const RENEWALS_PER_CALL: usize = 100;

/// Concurrent renewal calls; others wait, so that a slow store is not flooded.
const CALLS_AT_ONCE: usize = 16;

/// The smallest step of the store's clock that is reported; the drift margin of leases covers
/// smaller ones.
const CLOCK_STEP: Duration = Duration::from_millis(500);

type Batch = Vec<(Arc<Session>, Renewing)>;

/// The difference between the store's clock and ours, to within the duration of a call.
#[derive(Clone, Copy, Debug)]
struct Offset {
    least: i128,
    most: i128,
}

/// The state that the watchdog's calls share.
struct Renewer {
    core: Arc<Core>,
    calls: Semaphore,
    started: Instant,
    /// Each part of the store has its own clock.
    offsets: Mutex<HashMap<Partition, Offset>>,
}

/// Runs until the coordinator stops.
pub(crate) async fn run(core: Arc<Core>) {
    let stop = core.tasks.stop().clone();
    let renewer = Arc::new(Renewer::new(&core));
    while let Some(due) = stop.run_until_cancelled(core.deadlines.due()).await {
        let now = Instant::now();
        let renewing = due.into_iter().filter_map(|due| match due {
            Due::Grant(session, place) => {
                let renewing = session.on_due(&core.deadlines, place, now)?;
                Some((session, renewing))
            }
            Due::Session(session) => {
                if session.end_if_abandoned(&core.deadlines, now) {
                    core.sessions.remove(&session);
                }
                None
            }
        });
        renewer.renew_in_batches(renewing);
    }
}

/// Gives every watched grant of a live session one more full lease, and inspects the others;
/// returns when all are answered.
pub(crate) async fn renew_all(core: &Arc<Core>) {
    let renewer = Arc::new(Renewer::new(core));
    let renewing = core.sessions.all().into_iter().flat_map(|session| {
        let renewing = session.renew_all(&core.deadlines).into_iter();
        renewing.map(move |renewing| (Arc::clone(&session), renewing))
    });
    let calls = renewer.renew_in_batches(renewing);
    futures::future::join_all(calls).await;
}

/// A lock was granted anew, although a session counts on this grant of it: the store has lost that,
/// unless it was released meanwhile. The session learns of it now, not with its next renewal.
pub(crate) fn look_at_former(core: &Arc<Core>, id: &SessionId, key: &GrantKey, token: u64) {
    let Ok(session) = core.sessions.get(id) else {
        return;
    };
    if let Some(renewing) = session.renew_doubted(&core.deadlines, key, token) {
        Arc::new(Renewer::new(core)).renew_in_batches(iter::once((session, renewing)));
    }
}

/// The outcomes that count: a renewal known only to the master would be lost with it.
fn counted(mut renewals: PermitRenewals, acks: &ReplicationStatus) -> PermitRenewals {
    if let Err(error) = acks.acknowledged() {
        let outcomes = renewals.outcomes.iter_mut();
        outcomes
            .filter(|outcome| matches!(outcome, Some(Ok(_))))
            .for_each(|outcome| *outcome = None);
        renewals.error = Some(error);
    }
    renewals
}

// === impl Renewer ===

impl Renewer {
    fn new(core: &Arc<Core>) -> Self {
        let calls = Semaphore::new(CALLS_AT_ONCE);
        Self {
            core: Arc::clone(core),
            calls,
            started: Instant::now(),
            offsets: Mutex::default(),
        }
    }

    fn renew_in_batches(
        self: &Arc<Self>,
        all: impl Iterator<Item = (Arc<Session>, Renewing)>,
    ) -> Vec<JoinHandle<()>> {
        let mut calls = Vec::new();
        let mut call = |batch: Batch| {
            let this = Arc::clone(self);
            let renewal = async move { this.renew(batch).await };
            calls.push(self.core.tasks.spawn("renew", renewal));
        };
        // A grant waits for no more replicas than it needs, nor for those of other servers.
        let mut batches = BTreeMap::<_, Batch>::new();
        for (session, renewing) in all {
            let (is_permits, name) = match &renewing.renewal {
                LeaseRenewal::Permits(renewal) => (true, &renewal.name),
                LeaseRenewal::Lock(renewal) => (false, &renewal.name),
            };
            let min_replica_acks = renewing.min_replica_acks;
            let waits = self.core.waits_for_replicas(min_replica_acks);
            let partition = waits.then(|| self.core.scripts.partition(name));
            let alike = (is_permits, min_replica_acks, partition);
            let batch = batches.entry(alike).or_default();
            batch.push((session, renewing));
            if batch.len() == RENEWALS_PER_CALL {
                call(std::mem::take(batch));
            }
        }
        let begun = batches.into_values().filter(|batch| !batch.is_empty());
        begun.for_each(&mut call);
        calls
    }

    async fn renew(&self, batch: Batch) {
        let _permit = self.calls.acquire().await;
        let sent_at = Instant::now();
        for due_at in batch.iter().filter_map(|(_, renewing)| renewing.due_at) {
            self.core.metrics.renewal_sent(due_at, sent_at);
        }
        let reply = self.ask(&batch).await;
        for clock in &reply.clocks {
            self.core.metrics.clock_seen(clock);
            self.watch_clock(clock, sent_at);
        }
        if let Some(error) = &reply.error {
            let grants = reply.outcomes.iter().filter(|it| it.is_none()).count();
            tracing::warn!(%error, grants, "renewal failed");
        }
        let (mut lost, deadlines) = (Vec::new(), &self.core.deadlines);
        let tell = |session: &Arc<Session>, renewing: &Renewing, outcome| {
            self.core.metrics.renewed(Option::as_ref(&outcome));
            session.on_renewal(deadlines, renewing, sent_at, outcome);
        };
        for ((session, renewing), outcome) in batch.iter().zip(reply.outcomes) {
            match outcome {
                Some(Err(ownership)) => lost.push((session, renewing, ownership)),
                Some(Ok(lease)) => tell(session, renewing, Some(Ok(lease))),
                None => tell(session, renewing, None),
            }
        }
        // Only now: the store may no longer answer, and successful renewals must not wait for that.
        let lost = lost
            .into_iter()
            .map(|(session, renewing, ownership)| async move {
                let reason = self.core.why_lost(session, &renewing.key, ownership).await;
                tell(session, renewing, Some(Err(reason)));
            });
        futures::future::join_all(lost).await;
    }

    /// For each of a batch of one kind: its present lease, or why it is gone; none if too few
    /// replicas acknowledged the new lease.
    async fn ask(&self, batch: &Batch) -> PermitRenewals {
        let min_replica_acks = batch.iter().map(|(_, renewing)| renewing.min_replica_acks);
        let (scripts, acks) = self.core.replicated(min_replica_acks.max().unwrap_or(0));
        let (mut locks, mut permits) = (Vec::<Renewal>::new(), Vec::<PermitRenewal>::new());
        for (_, renewing) in batch {
            match &renewing.renewal {
                LeaseRenewal::Lock(renewal) => locks.push(renewal.clone()),
                LeaseRenewal::Permits(renewal) => permits.push(renewal.clone()),
            }
        }
        if locks.is_empty() {
            return counted(scripts.renew_permits(&permits).await, &acks);
        }
        counted(scripts.extend(&locks).await, &acks)
    }

    /// Leases run on the store's wall clock, so a step of it moves their ends. A step forward cuts
    /// every lease; a step back only makes them longer.
    fn watch_clock(&self, clock: &StoreClock, sent_at: Instant) {
        let since = |at: Instant| {
            i128::try_from(at.duration_since(self.started).as_micros()).unwrap_or(i128::MAX)
        };
        let now = Offset {
            least: i128::from(clock.micros) - since(clock.answered_at),
            most: i128::from(clock.micros) - since(sent_at),
        };
        let Some(before) = self.offsets.lock().insert(clock.partition, now) else {
            return;
        };
        let forward =
            u64::try_from(now.least - before.most).map_or(Duration::ZERO, Duration::from_micros);
        let back =
            u64::try_from(before.least - now.most).map_or(Duration::ZERO, Duration::from_micros);
        if forward > CLOCK_STEP {
            self.core.metrics.clock_stepped(true);
            tracing::warn!(?forward, "the store's clock stepped: leases end earlier");
            let now = Instant::now();
            for session in self.core.sessions.all() {
                session.shorten(&self.core.deadlines, forward, now);
            }
        } else if back > CLOCK_STEP {
            self.core.metrics.clock_stepped(false);
            tracing::warn!(?back, "the store's clock stepped: leases end later");
        }
    }
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
mod tests;
