//! What should be reached: each figure is a ratio within one round, so that the machine's weather
//! falls out of it.

use super::results::Round;

/// A ratio and its goal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) figure: &'static str,
    pub(super) goal: Goal,
    /// What a crash loses, on both sides of the ratio.
    pub(super) durability: &'static str,
    /// Without it there is no figure.
    pub(super) needs: Option<&'static str>,
    /// None if something was not measured.
    pub(super) ratio: fn(&Round) -> Option<f64>,
}

/// How large a ratio should be; none: it is only shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    None,
}

// === impl Goal ===

impl Goal {
    pub(super) fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
            Self::None => true,
        }
    }
}

// === impl Row ===

impl Row {
    const fn new(
        figure: &'static str,
        goal: Goal,
        durability: &'static str,
        ratio: fn(&Round) -> Option<f64>,
    ) -> Self {
        Self {
            figure,
            goal,
            durability,
            needs: None,
            ratio,
        }
    }

    const fn with(mut self, needed: &'static str) -> Self {
        self.needs = Some(needed);
        self
    }
}

const OPERATIONS: &str = "/operations_per_second";
const PAIRS: &str = "/per_second/pairs";
const HANDOVERS: &str = "/per_second/handovers";

const SAME: &str = "Redis without fsync, both";

/// How fast both halves would be one after the other.
fn floor(bare: f64, raw: f64) -> f64 {
    1.0 / (1.0 / bare + 1.0 / raw)
}

fn against_floor(round: &Round, [ours, bare, raw]: [&str; 3]) -> Option<f64> {
    let [ours, bare, raw] = [ours, bare, raw].map(|name| round.number(name, OPERATIONS));
    Some(ours? / floor(bare?, raw?))
}

fn quotient(round: &Round, ours: (&str, &str), other: (&str, &str)) -> Option<f64> {
    Some(round.number(ours.0, ours.1)? / round.number(other.0, other.1)?)
}

fn wait_p99_to_p50(round: &Round, name: &str) -> Option<f64> {
    let wait = |percentile| round.number(name, percentile);
    Some(wait("/latency_us/wait/p99")? / wait("/latency_us/wait/p50")?)
}

/// The rows of the table.
pub(super) const ROWS: &[Row] = &[
    Row::new(
        "`TryAcquire` through Redis, RPCs, 64 callers, against the floor",
        Goal::AtLeast(0.85),
        SAME,
        |round| against_floor(round, ["rpc-64", "bare-rpc-64", "raw-64"]),
    ),
    Row::new(
        "the same, 256 callers",
        Goal::AtLeast(0.85),
        SAME,
        |round| against_floor(round, ["rpc-256", "bare-rpc-256", "raw-256"]),
    ),
    Row::new(
        "the same work as frames, 64 in flight on 4 streams, against its own floor",
        Goal::AtLeast(0.75),
        SAME,
        |round| against_floor(round, ["frames-64", "bare-frames-64", "raw-frames-64"]),
    ),
    Row::new(
        "the same, 256 in flight",
        Goal::AtLeast(0.75),
        SAME,
        |round| against_floor(round, ["frames-256", "bare-frames-256", "raw-frames-256"]),
    ),
    Row::new(
        "frames against RPCs, 64 in flight",
        Goal::AtLeast(3.0),
        SAME,
        |round| quotient(round, ("frames-64", OPERATIONS), ("rpc-64", OPERATIONS)),
    ),
    Row::new(
        "the same, 256 in flight",
        Goal::AtLeast(3.0),
        SAME,
        |round| quotient(round, ("frames-256", OPERATIONS), ("rpc-256", OPERATIONS)),
    ),
    Row::new(
        "pairs of acquire and release as frames, 256 in flight, against rslock",
        Goal::AtLeast(1.0),
        SAME,
        |round| quotient(round, ("frames-256", PAIRS), ("rslock-256", PAIRS)),
    ),
    Row::new(
        "`TryAcquire`, one caller, p50, against bare + raw",
        Goal::AtMost(1.10),
        SAME,
        |round| {
            let p50 = |name| round.number(name, "/latency_us/try_acquire/p50");
            Some(p50("rpc-1")? / (p50("bare-rpc-1")? + p50("raw-1")?))
        },
    ),
    Row::new(
        "`TryAcquire`, embedded store, 64 callers, against bare",
        Goal::AtLeast(0.85),
        "memory against nothing kept",
        |round| {
            quotient(
                round,
                ("embedded-64", OPERATIONS),
                ("bare-rpc-64", OPERATIONS),
            )
        },
    ),
    Row::new(
        "hand-overs per second of one lock, 64 waiters, as frames, against etcd v3lock",
        Goal::AtLeast(10.0),
        "Redis without fsync against etcd on tmpfs",
        |round| {
            quotient(
                round,
                ("handover-frames-64", HANDOVERS),
                ("etcd-hot-64", HANDOVERS),
            )
        },
    )
    .with("etcd"),
    Row::new(
        "p99 against p50 of the wait, 64 waiters, as frames",
        Goal::AtMost(3.0),
        SAME,
        |round| wait_p99_to_p50(round, "handover-frames-64"),
    ),
    Row::new("the same as RPCs", Goal::AtMost(3.0), SAME, |round| {
        wait_p99_to_p50(round, "handover-64")
    }),
    Row::new(
        "hand-overs per second as RPCs, 10,000 waiters against 64",
        Goal::AtLeast(0.8),
        SAME,
        |round| {
            quotient(
                round,
                ("handover-10000", HANDOVERS),
                ("handover-64", HANDOVERS),
            )
        },
    ),
    Row::new(
        "hand-overs per second of one lock, as frames, against Redisson, 64 contenders each",
        Goal::AtLeast(3.0),
        SAME,
        |round| {
            quotient(
                round,
                ("handover-frames-64", HANDOVERS),
                ("redisson-hot-64", HANDOVERS),
            )
        },
    )
    .with("redisson"),
    Row::new(
        "uncontended pairs per second as RPCs, against Redisson, 64 callers each",
        Goal::AtLeast(1.0),
        SAME,
        |round| quotient(round, ("rpc-64", PAIRS), ("redisson-64", PAIRS)),
    )
    .with("redisson"),
    Row::new("the same as frames", Goal::AtLeast(1.0), SAME, |round| {
        quotient(round, ("frames-64", PAIRS), ("redisson-64", PAIRS))
    })
    .with("redisson"),
    Row::new(
        "`FAIR`, 64 waiters: most against fewest grants of a waiter",
        Goal::AtMost(1.05),
        SAME,
        |round| {
            let fair = "fair-64";
            quotient(
                round,
                (fair, "/grants_per_waiter/most"),
                (fair, "/grants_per_waiter/fewest"),
            )
        },
    ),
    Row::new(
        "watched grants: commands of Redis for a renewal",
        Goal::AtMost(1.0 / 50.0),
        SAME,
        |round| round.number("watch", "/watched/commands_per_renewal"),
    ),
    Row::new(
        "watched grants: share of one core that the coordinator uses",
        Goal::AtMost(0.10),
        SAME,
        |round| round.number("watch", "/watched/processor_share"),
    ),
    Row::new(
        "watched grants: the least that was left of a lease, as a share of it",
        Goal::AtLeast(0.5),
        SAME,
        |round| round.number("watch", "/least_remaining_lease"),
    ),
    Row::new(
        "blocked `Acquire` streams: resident memory for each, against an idle stream of the bare server",
        Goal::AtMost(1.5),
        "Redis without fsync against nothing kept",
        |round| {
            let bytes = "/bytes_per_waiter";
            quotient(round, ("blocked", bytes), ("bare-blocked", bytes))
        },
    ),
    Row::new(
        "sessions opened, one grant each, closed: time of one against two bare RPCs",
        Goal::AtMost(3.0),
        "Redis without fsync against nothing kept",
        |round| {
            let session = 1.0 / round.number("churn", "/per_second/sessions")?;
            let two_calls = 2.0 / round.number("bare-rpc-64", OPERATIONS)?;
            Some(session / two_calls)
        },
    ),
    Row::new(
        "for information: hand-overs per second as RPCs, 64 waiters, against etcd v3lock",
        Goal::None,
        "Redis without fsync against etcd on tmpfs",
        |round| {
            quotient(
                round,
                ("handover-64", HANDOVERS),
                ("etcd-hot-64", HANDOVERS),
            )
        },
    )
    .with("etcd"),
    Row::new(
        "for information: the same against Redisson",
        Goal::None,
        SAME,
        |round| {
            quotient(
                round,
                ("handover-64", HANDOVERS),
                ("redisson-hot-64", HANDOVERS),
            )
        },
    )
    .with("redisson"),
    Row::new(
        "for information: uncontended pairs per second as RPCs, 64 callers, against etcd v3lock",
        Goal::None,
        "Redis without fsync against etcd on tmpfs",
        |round| quotient(round, ("rpc-64", PAIRS), ("etcd-64", PAIRS)),
    )
    .with("etcd"),
];

#[cfg(test)]
#[path = "reach_tests.rs"]
mod tests;
