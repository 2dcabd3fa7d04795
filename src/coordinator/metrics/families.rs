//! Metrics of sessions, grants and waits, named as in docs/metrics.md.

use std::{sync::Arc, time::Duration};

use lockkeeper_base::metrics::{self, Counters, Histograms, Registrar, observe};
use lockkeeper_store::script::StoreClock;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};
use tokio::time::Instant;

use crate::{
    error::Limit,
    metrics::{
        labels::{
            Direction, Given, Heard, Kind, OperationName, Outcome, Reason, Renewal, Renewer, Source,
        },
        tokens::Tokens,
    },
    types::{Grant, LostReason},
};

/// Shared by the parts of a coordinator.
pub(crate) type Shared = Arc<Metrics>;

/// Sessions and their holdings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionTally {
    pub(crate) live: usize,
    pub(crate) detached: usize,
    pub(crate) grants: usize,
}

/// The metric families of the coordinator.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) grants: Counters<Kind, Outcome>,
    pub(crate) waits: Histograms<Outcome>,
    pub(crate) operations: Histograms<OperationName>,
    pub(crate) handovers: Histograms<Heard>,
    pub(crate) hold: Histogram,
    pub(crate) releases: Counters<Given>,
    pub(crate) renewals: Counters<Renewer, Renewal>,
    pub(crate) renewal_lag: Histogram,
    pub(crate) lease_margin: Histogram,
    pub(crate) lost: Counters<Reason>,
    pub(crate) wakeups: Counters<Source>,
    pub(crate) orphans: Counter,
    pub(crate) limits: Counters<Limit>,
    pub(crate) clock_steps: Counters<Direction>,
    pub(crate) clock_skew: Gauge<f64, std::sync::atomic::AtomicU64>,
    pub(crate) regressions: Counter,
    pub(crate) counters_out_of_range: Counter,
    pub(crate) tokens: Tokens,
    pub(crate) sessions: Gauge,
    pub(crate) detached: Gauge,
    pub(crate) holds: Gauge,
    pub(crate) waiters: Gauge,
    pub(crate) draining: Gauge,
}

// === impl Metrics ===

impl Default for Metrics {
    fn default() -> Self {
        Self {
            grants: Counters::default(),
            waits: Histograms::new(metrics::of_waits),
            operations: Histograms::new(metrics::of_calls),
            handovers: Histograms::new(metrics::of_calls),
            hold: metrics::of_holds(),
            releases: Counters::default(),
            renewals: Counters::default(),
            renewal_lag: metrics::of_calls(),
            lease_margin: metrics::of_leases(),
            lost: Counters::default(),
            wakeups: Counters::default(),
            orphans: Counter::default(),
            limits: Counters::default(),
            clock_steps: Counters::default(),
            clock_skew: Gauge::default(),
            regressions: Counter::default(),
            counters_out_of_range: Counter::default(),
            tokens: Tokens::default(),
            sessions: Gauge::default(),
            detached: Gauge::default(),
            holds: Gauge::default(),
            waiters: Gauge::default(),
            draining: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Updates the metrics that are not counted as events happen.
    pub(crate) fn refresh(&self, sessions: SessionTally, waiting: usize, draining: bool) {
        metrics::set(&self.sessions, sessions.live);
        metrics::set(&self.detached, sessions.detached);
        metrics::set(&self.holds, sessions.grants);
        metrics::set(&self.waiters, waiting);
        self.draining.set(draining.into());
    }

    pub(crate) fn register(&self, to: &mut Registrar<'_>) {
        to.add(
            "grants",
            "Acquires that ended, by how",
            self.grants.family(),
        );
        to.add(
            "wait_seconds",
            "From the begin of an acquire that may wait to its end",
            self.waits.family(),
        );
        to.add(
            "operation_seconds",
            "From the begin of an operation that does not wait to its answer",
            self.operations.family(),
        );
        to.add(
            "handover_seconds",
            "From a release that is heard of here to the grant of the next who waits here",
            self.handovers.family(),
        );
        to.add(
            "hold_seconds",
            "From a grant in a session to its end",
            self.hold.clone(),
        );
        to.add(
            "releases",
            "Releases by callers, by how they ended",
            self.releases.family(),
        );
        to.add(
            "renewals",
            "Renewals of leases, by who asked and how they ended",
            self.renewals.family(),
        );
        to.add(
            "renewal_lag_seconds",
            "How much later than due renewals are sent",
            self.renewal_lag.clone(),
        );
        to.add(
            "lease_margin_seconds",
            "What was left of the safe time of a grant when its renewal was answered",
            self.lease_margin.clone(),
        );
        to.add(
            "leases_lost",
            "Grants that turned out to be held no more, by why",
            self.lost.family(),
        );
        to.add(
            "wakeups",
            "Reasons to try again for those who wait, by where they came from",
            self.wakeups.family(),
        );
        to.add(
            "orphan_grants_reclaimed",
            "Holds that nobody was told of, taken back",
            self.orphans.clone(),
        );
        to.add(
            "limit_refusals",
            "Requests refused because of a limit",
            self.limits.family(),
        );
        to.add(
            "store_clock_steps",
            "Steps of the store's clock that moved the ends of leases",
            self.clock_steps.family(),
        );
        to.add(
            "store_clock_skew_seconds",
            "By how much the store's clock is ahead of this process's, when last seen",
            self.clock_skew.clone(),
        );
        to.add(
            "fencing_token_regressions",
            "New grants whose fencing token was smaller than one granted before; must stay 0",
            self.regressions.clone(),
        );
        to.add(
            "fencing_counters_refused",
            "Operations refused because a fencing counter is beyond what tokens can be; must stay 0",
            self.counters_out_of_range.clone(),
        );
        to.add(
            "sessions",
            "Sessions with a stream here",
            self.sessions.clone(),
        );
        to.add(
            "sessions_detached",
            "Sessions whose stream broke and that may be resumed",
            self.detached.clone(),
        );
        to.add("holds", "Grants held in sessions here", self.holds.clone());
        to.add("waiters", "Calls that wait here", self.waiters.clone());
        to.add(
            "draining",
            "1 while this coordinator is on its way out",
            self.draining.clone(),
        );
    }

    /// Counts a reason for waiters to try again.
    pub(crate) fn woken(&self, source: Source) {
        self.wakeups.of(source).inc();
    }

    /// Records a grant to the head of the line after a release heard of at `released_at`.
    pub(crate) fn handed_over(&self, heard: Heard, released_at: Instant) {
        observe(self.handovers.of(heard), released_at.elapsed());
    }

    /// Records the end of a holding of a session that began at `since`.
    pub(crate) fn hold_ended(&self, since: Instant) {
        observe(&self.hold, since.elapsed());
    }

    /// Counts a grant that turned out to be gone.
    pub(crate) fn lost(&self, reason: &LostReason) {
        self.lost.of(reason.into()).inc();
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

    /// Records the token of a new grant, requested at `sent_at`.
    pub(crate) fn token_seen(&self, grant: &Grant, sent_at: Instant) {
        if let Some(before) = self.tokens.goes_back(grant, sent_at) {
            self.regressions.inc();
            let token = grant.fencing_token;
            tracing::error!(name = %grant.name, token, before, "the fencing token went back");
        }
    }
}
