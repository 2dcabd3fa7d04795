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
const REDIS_US: &str = "/processor_us/redis";

const SAME: &str = "Redis without fsync, both";
const BARE: &str = "Redis without fsync against nothing kept";
const ETCD: &str = "Redis without fsync against etcd on tmpfs";

/// How fast both halves would be one after the other.
fn floor(bare: f64, rslock: f64) -> f64 {
    1.0 / (1.0 / bare + 1.0 / rslock)
}

fn against_floor(round: &Round, [ours, bare, rslock]: [&str; 3]) -> Option<f64> {
    let [ours, bare, rslock] = [ours, bare, rslock].map(|name| round.number(name, OPERATIONS));
    Some(ours? / floor(bare?, rslock?))
}

fn pairs(round: &Round, [ours, other]: [&str; 2]) -> Option<f64> {
    quotient(round, (ours, PAIRS), (other, PAIRS))
}

fn handovers(round: &Round, [ours, other]: [&str; 2]) -> Option<f64> {
    quotient(round, (ours, HANDOVERS), (other, HANDOVERS))
}

fn quotient(round: &Round, ours: (&str, &str), other: (&str, &str)) -> Option<f64> {
    Some(round.number(ours.0, ours.1)? / round.number(other.0, other.1)?)
}

fn wait_p99_to_p50(round: &Round, name: &str) -> Option<f64> {
    let wait = |percentile| round.number(name, percentile);
    Some(wait("/latency_us/wait/p99")? / wait("/latency_us/wait/p50")?)
}

/// The rows of the table: with native commands where that has a goal, and by scripts, the default,
/// for information.
pub(super) const ROWS: &[Row] = &[
    Row::new(
        "`TryAcquire`, RPCs, 64 callers, against the floor",
        Goal::AtLeast(0.85),
        SAME,
        |round| against_floor(round, ["rpc-64", "bare-rpc-64", "rslock-64"]),
    ),
    Row::new(
        "the same, 256 callers",
        Goal::AtLeast(0.85),
        SAME,
        |round| against_floor(round, ["rpc-256", "bare-rpc-256", "rslock-256"]),
    ),
    Row::new(
        "frames with native commands, 64 in flight on 4 streams, against their floor",
        Goal::AtLeast(0.75),
        SAME,
        |round| against_floor(round, ["native-frames-64", "bare-frames-64", "rslock-64"]),
    ),
    Row::new(
        "the same, 256 in flight",
        Goal::AtLeast(0.75),
        SAME,
        |round| {
            against_floor(
                round,
                ["native-frames-256", "bare-frames-256", "rslock-256"],
            )
        },
    ),
    Row::new(
        "pairs as frames with native commands, 256 in flight, against rslock",
        Goal::AtLeast(0.7),
        SAME,
        |round| pairs(round, ["native-frames-256", "rslock-256"]),
    ),
    Row::new(
        "processor time of Redis for such a pair, against one of rslock",
        Goal::AtMost(1.1),
        SAME,
        |round| {
            quotient(
                round,
                ("native-frames-256", REDIS_US),
                ("rslock-256", REDIS_US),
            )
        },
    ),
    Row::new(
        "`TryAcquire`, one caller, p50, against bare + rslock",
        Goal::AtMost(1.10),
        SAME,
        |round| {
            let tried = |name| round.number(name, "/latency_us/try_acquire/p50");
            let rslock = round.number("rslock-1", "/latency_us/acquire/p50")?;
            Some(tried("rpc-1")? / (tried("bare-rpc-1")? + rslock))
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
        "hand-overs of one lock, 64 waiters, frames with native commands, against etcd",
        Goal::AtLeast(20.0),
        ETCD,
        |round| handovers(round, ["native-handover-frames-64", "etcd-hot-64"]),
    )
    .with("etcd"),
    Row::new(
        "the same against Redisson, 64 contenders each",
        Goal::AtLeast(5.0),
        SAME,
        |round| handovers(round, ["native-handover-frames-64", "redisson-hot-64"]),
    )
    .with("redisson"),
    Row::new(
        "for information: time of such a hand-over, against bare frames + rslock, one caller",
        Goal::None,
        SAME,
        |round| {
            let p50 = |name, what| round.number(name, what);
            let bare = p50("bare-frames-1", "/latency_us/try_acquire/p50")?;
            let rslock = p50("rslock-1", "/latency_us/acquire/p50")?;
            let handovers = round.number("native-handover-frames-64", HANDOVERS)?;
            Some(1e6 / handovers / (bare + rslock))
        },
    ),
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
        "hand-overs as RPCs, 10,000 waiters against 64",
        Goal::AtLeast(0.8),
        SAME,
        |round| handovers(round, ["handover-10000", "handover-64"]),
    ),
    Row::new(
        "uncontended pairs as RPCs, against Redisson, 64 callers each",
        Goal::AtLeast(1.0),
        SAME,
        |round| pairs(round, ["rpc-64", "redisson-64"]),
    )
    .with("redisson"),
    Row::new("the same as frames", Goal::AtLeast(1.0), SAME, |round| {
        pairs(round, ["frames-64", "redisson-64"])
    })
    .with("redisson"),
    Row::new(
        "`FAIR`, 64 waiters: most against fewest grants of a waiter",
        Goal::AtMost(1.05),
        SAME,
        |round| {
            let [most, fewest] = ["/grants_per_waiter/most", "/grants_per_waiter/fewest"];
            quotient(round, ("fair-64", most), ("fair-64", fewest))
        },
    ),
    Row::new(
        "watched grants: commands of Redis for a renewal",
        Goal::AtMost(0.0101),
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
        "blocked `Acquire` streams: memory of each, against an idle stream of the bare server",
        Goal::AtMost(1.0),
        BARE,
        |round| {
            let bytes = "/bytes_per_waiter";
            quotient(round, ("blocked", bytes), ("bare-blocked", bytes))
        },
    ),
    Row::new(
        "sessions opened, one grant each, closed: time of one against two bare RPCs",
        Goal::AtMost(3.0),
        BARE,
        |round| {
            let session = 1.0 / round.number("churn", "/per_second/sessions")?;
            let two_calls = 2.0 / round.number("bare-rpc-64", OPERATIONS)?;
            Some(session / two_calls)
        },
    ),
    Row::new(
        "for information: frames by scripts, 64 in flight, against their floor",
        Goal::None,
        SAME,
        |round| against_floor(round, ["frames-64", "bare-frames-64", "rslock-64"]),
    ),
    Row::new(
        "for information: the same, 256 in flight",
        Goal::None,
        SAME,
        |round| against_floor(round, ["frames-256", "bare-frames-256", "rslock-256"]),
    ),
    Row::new(
        "for information: pairs by scripts as frames, 256 in flight, against rslock",
        Goal::None,
        SAME,
        |round| pairs(round, ["frames-256", "rslock-256"]),
    ),
    Row::new(
        "for information: pairs as frames with native commands, against rslock, on Redis 8",
        Goal::None,
        "Redis 8 without fsync, both",
        |round| pairs(round, ["native-frames-256-redis-8", "rslock-256-redis-8"]),
    )
    .with("redis-8"),
    Row::new(
        "for information: pairs as frames with native commands, against rslock, on Valkey 9",
        Goal::None,
        "Valkey 9 without fsync, both",
        |round| pairs(round, ["native-frames-256-valkey-9", "rslock-256-valkey-9"]),
    )
    .with("valkey-9"),
    Row::new(
        "for information: hand-overs as frames by scripts, 64 waiters, against etcd",
        Goal::None,
        ETCD,
        |round| handovers(round, ["handover-frames-64", "etcd-hot-64"]),
    )
    .with("etcd"),
    Row::new(
        "for information: the same against Redisson",
        Goal::None,
        SAME,
        |round| handovers(round, ["handover-frames-64", "redisson-hot-64"]),
    )
    .with("redisson"),
    Row::new(
        "for information: hand-overs as RPCs by scripts, 64 waiters, against etcd",
        Goal::None,
        ETCD,
        |round| handovers(round, ["handover-64", "etcd-hot-64"]),
    )
    .with("etcd"),
    Row::new(
        "for information: the same against Redisson",
        Goal::None,
        SAME,
        |round| handovers(round, ["handover-64", "redisson-hot-64"]),
    )
    .with("redisson"),
    Row::new(
        "for information: uncontended pairs as RPCs, 64 callers, against etcd",
        Goal::None,
        ETCD,
        |round| pairs(round, ["rpc-64", "etcd-64"]),
    )
    .with("etcd"),
];

#[cfg(test)]
#[path = "reach_tests.rs"]
mod tests;
