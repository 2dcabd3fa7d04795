//! The watchdog: one task and one queue of deadlines. It renews watched grants a third of their lease after the last time, many in one call; it
//! notices what is lost by the clock even when the store says nothing; and it watches the store's clock.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

use super::{
    Core,
    deadlines::Due,
    session::{LeaseRenewal, Renewing, Session},
};
use crate::script::{CallError, Ownership, PermitRenewal, Renewal};

/// Holds in one renewal script: as many as Redisson's, so that no script blocks the store for long.
const RENEWALS_PER_CALL: usize = 100;

/// Renewal calls under way at once; more wait, so that a slow store is not buried.
const CALLS_AT_ONCE: usize = 16;

/// A step of the store's clock that is larger than this is told; smaller ones are covered by the drift margin of leases.
const CLOCK_STEP: Duration = Duration::from_millis(500);

type Batch = Vec<(Arc<Session>, Renewing)>;

/// The difference between the store's clock and ours, known to within the time that a call took.
#[derive(Clone, Copy, Debug)]
struct Offset {
    least: i128,
    most: i128,
}

/// What the watchdog's calls share.
struct Renewer {
    core: Arc<Core>,
    calls: Semaphore,
    started: Instant,
    offset: Mutex<Option<Offset>>,
}

/// Runs until the coordinator stops.
pub(super) async fn run(core: Arc<Core>) {
    let stop = core.tasks.stop().clone();
    let renewer = Arc::new(Renewer::new(&core));
    while let Some(due) = stop.run_until_cancelled(core.deadlines.due()).await {
        let now = Instant::now();
        let mut batch = Batch::new();
        for due in due {
            match due {
                Due::Grant(session, key) => {
                    if let Some(renewing) = session.on_due(&core.deadlines, &key, now) {
                        batch.push((session, renewing));
                    }
                }
                Due::Session(session) => {
                    if session.end_if_abandoned(&core.deadlines, now) {
                        core.sessions.remove(&session);
                    }
                }
            }
        }
        renewer.renew_in_batches(batch);
    }
}

/// Gives every watched grant of a live session one more full lease, and looks at the others; returns when each has been answered.
pub(super) async fn renew_all(core: &Arc<Core>) {
    let renewer = Arc::new(Renewer::new(core));
    let mut batch = Batch::new();
    for session in core.sessions.all() {
        for renewing in session.renew_all(&core.deadlines) {
            batch.push((Arc::clone(&session), renewing));
        }
    }
    let calls = renewer.renew_in_batches(batch);
    futures::future::join_all(calls).await;
}

// === impl Renewer ===

impl Renewer {
    fn new(core: &Arc<Core>) -> Self {
        let calls = Semaphore::new(CALLS_AT_ONCE);
        Self {
            core: Arc::clone(core),
            calls,
            started: Instant::now(),
            offset: Mutex::new(None),
        }
    }

    fn renew_in_batches(self: &Arc<Self>, batch: Batch) -> Vec<tokio::task::JoinHandle<()>> {
        let mut calls = Vec::new();
        let (locks, permits): (Batch, Batch) = batch
            .into_iter()
            .partition(|(_, renewing)| matches!(renewing.renewal, LeaseRenewal::Lock(_)));
        for mut batch in [locks, permits] {
            while !batch.is_empty() {
                let rest = batch.split_off(batch.len().min(RENEWALS_PER_CALL));
                let (this, chunk) = (Arc::clone(self), std::mem::replace(&mut batch, rest));
                calls.push(
                    self.core
                        .tasks
                        .spawn("renew", async move { this.renew(chunk).await }),
                );
            }
        }
        calls
    }

    async fn renew(&self, batch: Batch) {
        let _permit = self.calls.acquire().await;
        let sent_at = Instant::now();
        let reply = self.ask(&batch).await;
        match &reply {
            Ok((store_micros, _)) => self.watch_clock(*store_micros, sent_at, Instant::now()),
            Err(error) => tracing::warn!(%error, grants = batch.len(), "renewal failed"),
        }
        for (at, (session, renewing)) in batch.iter().enumerate() {
            let outcome = reply
                .as_ref()
                .ok()
                .and_then(|(_, outcomes)| outcomes.get(at).copied().flatten());
            session.on_renewal(&self.core.deadlines, renewing, sent_at, outcome);
        }
    }

    /// The store's clock, and for each of a batch that is all of one kind the lease it has now, or why it is gone; none
    /// if that is not known.
    async fn ask(
        &self,
        batch: &Batch,
    ) -> Result<(i64, Vec<Option<Result<Duration, Ownership>>>), CallError> {
        let scripts = &self.core.scripts;
        let (mut locks, mut permits) = (Vec::<Renewal>::new(), Vec::<PermitRenewal>::new());
        for (_, renewing) in batch {
            match &renewing.renewal {
                LeaseRenewal::Lock(renewal) => locks.push(renewal.clone()),
                LeaseRenewal::Permits(renewal) => permits.push(renewal.clone()),
            }
        }
        if locks.is_empty() {
            let reply = scripts.renew_permits(&permits).await?;
            let outcomes = reply.outcomes.into_iter().map(Some);
            return Ok((reply.store_micros, outcomes.collect()));
        }
        let reply = scripts.renew(&locks).await?;
        let leases = reply.outcomes.into_iter();
        let leases = leases.map(|outcome| Some(outcome?.map(|renewed| renewed.lease)));
        Ok((reply.store_micros, leases.collect()))
    }

    /// Leases run on the store's wall clock, so a step of it moves their ends. A step forward cuts every lease; a step back only makes them longer.
    fn watch_clock(&self, store_micros: i64, sent_at: Instant, answered_at: Instant) {
        let since = |at: Instant| {
            i128::try_from(at.duration_since(self.started).as_micros()).unwrap_or(i128::MAX)
        };
        let now = Offset {
            least: i128::from(store_micros) - since(answered_at),
            most: i128::from(store_micros) - since(sent_at),
        };
        let Some(before) = self.offset.lock().replace(now) else {
            return;
        };
        let forward =
            u64::try_from(now.least - before.most).map_or(Duration::ZERO, Duration::from_micros);
        let back =
            u64::try_from(before.least - now.most).map_or(Duration::ZERO, Duration::from_micros);
        if forward > CLOCK_STEP {
            tracing::warn!(?forward, "the store's clock stepped: leases end earlier");
            let now = Instant::now();
            for session in self.core.sessions.all() {
                session.shorten(&self.core.deadlines, forward, now);
            }
        } else if back > CLOCK_STEP {
            tracing::warn!(?back, "the store's clock stepped: leases end later");
        }
    }
}
