//! Metrics of sessions, grants and waits, named as in docs/metrics.md.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use lockkeeper_base::metrics::{
    Counters, Histogram, Histograms, Registrar, observe, of_calls, of_holds, of_leases, of_waits,
    set,
};
use lockkeeper_store::script::StoreClock;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use tokio::time::Instant;

use crate::{
    error::Limit,
    metrics::{
        contention::ContentionSketch,
        labels::{
            Direction, Given, Heard, Kind, OperationName, Outcome, Reason, Renewal, Renewer, Source,
        },
        prefixes::Prefixes,
        tokens::{Former, Tokens},
    },
    types::{Grant, LockName, LostReason},
};

/// Shared by the parts of a coordinator.
pub(crate) type Shared = Arc<Metrics>;

/// Sessions and their holdings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionTally {
    pub(crate) live: usize,
    pub(crate) detached: usize,
    pub(crate) grants: usize,
    pub(crate) at_risk: usize,
}

/// Declares the families: how each is made and registered, its name and its help.
macro_rules! families {
    ($($field:ident: $type:ty = $new:expr, $registered:ident $name:literal: $help:literal;)*) => {
        /// The metric families of the coordinator.
        #[derive(Debug)]
        pub(crate) struct Metrics {
            $(pub(crate) $field: $type,)*
            pub(crate) contention: ContentionSketch,
            pub(crate) prefixes: Prefixes,
            tokens: Tokens,
        }

        impl Metrics {
            /// All of them; those by the beginnings of names for these prefixes.
            pub(crate) fn new(prefixes: &[String]) -> Self {
                Self {
                    $($field: $new,)*
                    contention: ContentionSketch::default(),
                    prefixes: Prefixes::new(prefixes),
                    tokens: Tokens::default(),
                }
            }

            pub(crate) fn register(&self, to: &mut Registrar<'_>) {
                $(to.add($name, $help, self.$field.$registered());)*
                self.prefixes.register(to);
            }
        }
    };
}

families! {
    grants: Counters<Kind, Outcome> = Counters::default(), family "grants":
        "Acquires that ended, by how";
    waits: Histograms<Outcome> = Histograms::new(of_waits), family "wait_seconds":
        "Time from the start of an acquire that may wait to its end";
    operations: Histograms<OperationName> = Histograms::on_use(of_calls),
        family "operation_seconds":
        "Time from the start of a non-waiting operation to its answer";
    handovers: Histograms<Heard> = Histograms::new(of_calls), family "handover_seconds":
        "Time from a release to the grant of the next waiter here";
    hold: Histogram = of_holds(), clone "hold_seconds":
        "From a grant in a session to its end";
    releases: Counters<Given> = Counters::default(), family "releases":
        "Releases by callers, by how they ended";
    renewals: Counters<Renewer, Renewal> = Counters::default(), family "renewals":
        "Renewals of leases, by who asked and how they ended";
    renewal_lag: Histogram = of_calls(), clone "renewal_lag_seconds":
        "How late the watchdog sends renewals";
    lease_margin: Histogram = of_leases(), clone "lease_margin_seconds":
        "The remaining valid_for of a grant when its renewal was answered";
    lost: Counters<Reason> = Counters::default(), family "leases_lost":
        "Grants that sessions lost, by reason";
    wakeups: Counters<Source> = Counters::default(), family "wakeups":
        "New attempts of waiters, by what woke them";
    orphans: Counter = Counter::default(), clone "orphan_grants_reclaimed":
        "Grants that were undone before they were delivered";
    limits: Counters<Limit> = Counters::default(), family "limit_refusals":
        "Requests refused because of a limit";
    clock_steps: Counters<Direction> = Counters::default(), family "store_clock_steps":
        "Steps of the store's clock that moved the ends of leases";
    clock_skew: Gauge<f64, AtomicU64> = Gauge::default(), clone "store_clock_skew_seconds":
        "By how much the store's clock is ahead of this process's, when last seen";
    regressions: Counter = Counter::default(), clone "fencing_token_regressions":
        "New grants whose fencing token was smaller than one granted before; must stay 0";
    counters_refused: Counter = Counter::default(), clone "fencing_counters_refused":
        "Operations refused because a fencing counter is out of range; must stay 0";
    sessions: Gauge = Gauge::default(), clone "sessions":
        "Sessions with a stream here";
    detached: Gauge = Gauge::default(), clone "sessions_detached":
        "Sessions whose stream broke and that may be resumed";
    holds: Gauge = Gauge::default(), clone "holds":
        "Grants held in sessions here";
    waiters: Gauge = Gauge::default(), clone "waiters":
        "Calls that wait here";
    deadlocks: Gauge = Gauge::default(), clone "deadlocks":
        "Deadlocks that waits here are part of";
    deadlocks_found: Counter = Counter::default(), clone "deadlocks_found":
        "Deadlocks that waits here became part of";
    waits_left_out: Gauge = Gauge::default(), clone "waiting_owners_left_out":
        "Owners and sessions whose waits other coordinators cannot see, because there are too many";
    draining: Gauge = Gauge::default(), clone "draining":
        "1 while this coordinator drains";
}

// === impl Metrics ===

impl Metrics {
    /// Updates the metrics that are not counted as events happen.
    pub(crate) fn refresh(&self, sessions: SessionTally, waiting: usize, draining: bool) {
        set(&self.sessions, sessions.live);
        set(&self.detached, sessions.detached);
        set(&self.holds, sessions.grants);
        set(&self.waiters, waiting);
        self.draining.set(draining.into());
    }

    /// Records what a look for deadlocks has found.
    pub(crate) fn waits_seen(&self, deadlocks: usize, new: usize, left_out: usize) {
        set(&self.deadlocks, deadlocks);
        self.deadlocks_found.inc_by(new as u64);
        set(&self.waits_left_out, left_out);
    }

    /// Counts a reason for waiters to try again.
    pub(crate) fn woken(&self, source: Source) {
        self.wakeups.of(source).inc();
    }

    /// Records a grant to the head of the line after a release heard of at `released_at`.
    pub(crate) fn handed_over(&self, heard: Heard, released_at: Instant) {
        observe(self.handovers.of(heard), released_at.elapsed());
    }

    /// Records the end of a holding that began at `since`, of a session with this client name.
    pub(crate) fn hold_ended(&self, name: &LockName, client_name: &str, since: Instant) {
        let held = since.elapsed();
        observe(&self.hold, held);
        self.contention.hold_ended(name, client_name, held);
    }

    /// Counts a grant that turned out to be gone.
    pub(crate) fn lost(&self, name: &LockName, reason: &LostReason) {
        self.lost.of(reason.into()).inc();
        self.prefixes.lost(name, reason.into());
    }

    /// Counts a wait for a lock or permits.
    pub(crate) fn wait_began(&self, name: &LockName) {
        self.contention.wait_began(name);
        self.prefixes.wait_began(name);
    }

    /// Counts the time of a wait for a lock or permits.
    pub(crate) fn wait_ended(&self, name: &LockName, waited: Duration) {
        self.contention.wait_ended(name, waited);
        self.prefixes.wait_ended(name, waited);
    }

    /// Counts an undone hold whose grant never reached its caller.
    pub(crate) fn orphan_reclaimed(&self) {
        self.orphans.inc();
    }

    /// Counts a request refused because of a limit.
    pub(crate) fn limited(&self, limit: Limit) {
        self.limits.of(limit).inc();
    }

    /// Counts the outcome of a renewal by the watchdog.
    pub(crate) fn renewed<T, E>(&self, outcome: Option<&Result<T, E>>) {
        let result = match outcome {
            Some(Ok(_)) => Renewal::Done,
            Some(Err(_)) => Renewal::NotOwner,
            None => Renewal::Failed,
        };
        self.renewals.of_both(Renewer::Watchdog, result).inc();
    }

    /// Records how late a renewal is sent.
    pub(crate) fn renewal_sent(&self, due_at: Instant, now: Instant) {
        observe(&self.renewal_lag, now.saturating_duration_since(due_at));
    }

    /// Records the remaining safe window at the answer to a renewal.
    pub(crate) fn margin(&self, left: Duration) {
        observe(&self.lease_margin, left);
    }

    /// Counts a step of the store's clock, forward or back.
    pub(crate) fn clock_stepped(&self, forward: bool) {
        let direction = if forward {
            Direction::Forward
        } else {
            Direction::Back
        };
        self.clock_steps.of(direction).inc();
    }

    /// Records what the store's clock showed.
    #[allow(
        clippy::disallowed_methods,
        reason = "people compare the clocks; nothing is decided by it"
    )]
    pub(crate) fn clock_seen(&self, clock: &StoreClock) {
        let ours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = clock.answered_at.elapsed();
        let theirs = Duration::from_micros(u64::try_from(clock.micros).unwrap_or(0));
        let ours = ours.unwrap_or_default().saturating_sub(since);
        self.clock_skew
            .set(theirs.as_secs_f64() - ours.as_secs_f64());
    }

    /// Records a new grant, requested at `sent_at`. Returns the one before it, if it is known.
    pub(crate) fn grant_seen(&self, grant: &Grant, sent_at: Instant) -> Option<Former> {
        let former = self.tokens.replace(grant, sent_at)?;
        let (token, before) = (grant.fencing_token, former.token);
        if token < before {
            self.regressions.inc();
            tracing::error!(name = %grant.name, token, before, "the fencing token went back");
        }
        Some(former)
    }
}
