//! What all tasks of a run share.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use super::args::Scenario;
use lockkeeper_api::pb::{Grant, LockMode};
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{
    plan::{Plan, Target},
    tally::{Tally, What},
    timeline::{Pace, Timeline},
    witness::{Seen, Witness},
};

/// A lock that the run uses.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) name: String,
    pub(super) witness: Witness,
    /// Whether a call about it failed, so that its holder is unknown.
    pub(super) is_unclear: AtomicBool,
}

/// What all tasks of a run share.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) plan: Plan,
    pub(super) timeline: Timeline,
    pub(super) pace: Pace,
    pub(super) locks: Vec<Lock>,
    pub(super) seen: Seen,
    /// Cancelled to end operations under way at once.
    pub(super) stop: CancellationToken,
    /// One for each connection, against contention.
    tallies: Vec<Mutex<Tally>>,
}

/// An acquired lock.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) target: Target,
    /// When the acquire was due, or was sent.
    pub(super) due: u64,
    /// When the release was sent.
    pub(super) released_at: u64,
}

// === impl Stage ===

impl Stage {
    /// The clock starts now, and the measurement when the warm-up is over.
    pub(super) fn new(plan: Plan) -> Self {
        let timeline = Timeline::new(plan.warm_up, plan.duration);
        Self::with(plan, timeline)
    }

    /// The clock starts now; the scenario says when the measurement begins and ends.
    pub(super) fn open_ended(plan: Plan) -> Self {
        Self::with(plan, Timeline::open_ended())
    }

    fn with(plan: Plan, timeline: Timeline) -> Self {
        let lock = |name| Lock {
            name,
            witness: Witness::default(),
            is_unclear: AtomicBool::new(false),
        };
        let tally = |connection| {
            let callers = plan.share(plan.in_flight, connection);
            Mutex::new(Tally::of_callers(if plan.hands_over() {
                callers
            } else {
                0
            }))
        };
        Self {
            timeline,
            pace: Pace::new(plan.beginnings_per_second()),
            locks: plan.lock_names().map(lock).collect(),
            seen: Seen::default(),
            stop: CancellationToken::new(),
            tallies: (0..plan.connections).map(tally).collect(),
            plan,
        }
    }

    pub(super) fn tally(&self, connection: usize) -> MutexGuard<'_, Tally> {
        self.tallies[connection].lock()
    }

    /// The sum of all connections.
    pub(super) fn total(&self) -> Tally {
        let mut total = Tally::default();
        for tally in &self.tallies {
            total.merge(&tally.lock());
        }
        total
    }

    /// Whether nothing has made the run void.
    pub(super) fn is_clean(&self) -> bool {
        let faults = |tally: &Mutex<Tally>| tally.lock().faults;
        self.seen.is_clean() && self.tallies.iter().map(faults).sum::<u64>() == 0
    }

    /// The progress in words.
    pub(super) fn progress(&self) -> String {
        let grants = self.seen.grants.load(Ordering::Relaxed);
        let answered = |tally: &Mutex<Tally>| tally.lock().operations;
        let operations: u64 = self.tallies.iter().map(answered).sum();
        let phase = self.timeline.phase();
        format!("{phase}: {operations} operations measured, {grants} grants in all")
    }

    /// The length of the measurement.
    pub(super) fn measured(&self) -> Duration {
        self.timeline.measured()
    }

    /// Operations that were due and had not begun when the measurement ended.
    pub(super) fn backlog(&self) -> usize {
        self.pace.backlog().len()
    }

    /// Operations that never began count as if they had ended with the measurement.
    pub(super) fn count_backlog(&self) {
        let whats: &[What] = match self.plan.scenario {
            Scenario::Uncontended => &[What::TryAcquire, What::Pair],
            Scenario::ReadMostly => &[What::ReadWait],
            Scenario::Churn => &[What::Session],
            _ => &[What::Wait],
        };
        let end = self.timeline.end();
        let mut tally = self.tally(0);
        let backlog = self.pace.backlog();
        for due in backlog
            .into_iter()
            .filter(|due| self.timeline.measures(*due))
        {
            for what in whats {
                tally.time(*what, end - due);
            }
        }
    }

    /// A caller got a grant. The witness sees it enter.
    pub(super) fn granted(
        &self,
        tally: &mut Tally,
        caller: usize,
        target: Target,
        grant: &Grant,
        (due, at): (u64, u64),
    ) -> Taken {
        let witness = &self.locks[target.lock].witness;
        witness.enter(target.mode, grant.fencing_token, &self.seen);
        if grant.hold_count != 1 {
            let holds = grant.hold_count;
            tally.fault(format!(
                "a grant with {holds} holds was told to an owner that took it once"
            ));
        }
        if self.pace.counts(&self.timeline, due, at) {
            let what = match target.mode {
                LockMode::Read => What::ReadWait,
                LockMode::Write => What::WriteWait,
                _ if self.plan.waits() => What::Wait,
                _ => What::TryAcquire,
            };
            tally.time(what, at.saturating_sub(due));
        }
        if self.timeline.measures(at) {
            tally.operations += 1;
            if self.plan.hands_over() {
                tally.grants[caller] += 1;
                let released_at = witness.take_released_at();
                // At a fixed rate there may have been no waiter when the lock was released; then
                // there was no hand-over.
                let waited = |released_at: &u64| self.pace.is_closed() || due <= *released_at;
                if let Some(released_at) = released_at.filter(waited) {
                    tally.time(What::Gap, at.saturating_sub(released_at));
                }
            }
        }
        Taken {
            target,
            due,
            released_at: at,
        }
    }

    /// A caller is about to send its release. The witness sees it leave.
    pub(super) fn leave(&self, taken: &mut Taken) {
        taken.released_at = self.timeline.now();
        let witness = &self.locks[taken.target.lock].witness;
        witness.leave(taken.target.mode, taken.released_at);
    }

    /// A release was answered.
    pub(super) fn released(&self, tally: &mut Tally, taken: &Taken, is_released: bool, at: u64) {
        if !is_released {
            tally.fault("a release of the only hold was answered with holds that are left");
        }
        if self.pace.counts(&self.timeline, taken.due, at) {
            tally.time(What::Release, at.saturating_sub(taken.released_at));
            if !self.plan.waits() {
                tally.time(What::Pair, at.saturating_sub(taken.due));
            }
        }
        if self.timeline.measures(at) {
            tally.operations += 1;
            tally.rounds += 1;
        }
    }

    /// A try was refused, which is right only after a failed call that may have acquired the lock.
    pub(super) fn not_acquired(&self, tally: &mut Tally, target: Target) {
        let lock = &self.locks[target.lock];
        if lock.is_unclear.load(Ordering::Relaxed) {
            tally.refused("HELD_SINCE_A_REFUSAL");
        } else {
            tally.fault(format!(
                "nobody else wants {}, but it was not to be had",
                lock.name
            ));
        }
    }

    /// A call failed: see [`Tally::failed`].
    pub(super) fn failed(&self, tally: &mut Tally, target: Target, status: &Status) {
        self.locks[target.lock]
            .is_unclear
            .store(true, Ordering::Relaxed);
        tally.failed(status);
    }
}
