//! What is measured in each round, in this order. The names are those in the file of results.

use super::results::Options;

/// Settings of the coordinator for one hundred thousand waiters on one lock and four connections.
pub(super) const CROWD: &[(&str, &str)] = &[
    ("limits.connection_streams_max", "100000"),
    ("limits.waiters_per_lock_max", "200000"),
];

/// Redisson's programs are compiled while they run: nothing counts before that.
pub(super) const JAVA_WARM_UP_SECONDS_MIN: f64 = 4.0;

/// Ten thousand calls take a while until all wait.
pub(super) const CROWD_WARM_UP_SECONDS_MIN: f64 = 3.0;

/// Sessions that hold the watched grants.
pub(super) const WATCH_SESSIONS: &str = "100";

/// One thing that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    pub(super) name: &'static str,
    /// For people.
    pub(super) what: &'static str,
    pub(super) on: Target,
    pub(super) by: Driver,
    /// Words for the driver.
    pub(super) words: &'static str,
    pub(super) warm_up_seconds_min: f64,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The coordinator on Redis.
    Coordinator,
    /// The coordinator with its embedded store.
    Embedded,
    /// The server that does nothing.
    Bare,
    /// Redis itself.
    Redis,
    Etcd,
}

/// What measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// `lockkeeper bench`.
    Bench,
    /// `lockkeeper bench waiters`, while the server's memory is looked at.
    Blocked,
    /// `lockkeeper bench watch`, while commands of Redis and the server's time are counted.
    Watch,
    /// A subcommand of this program.
    Anchor,
    /// The Java program.
    Redisson,
}

// === impl Measurement ===

impl Measurement {
    const fn new(
        name: &'static str,
        what: &'static str,
        on: Target,
        by: Driver,
        words: &'static str,
    ) -> Self {
        Self {
            name,
            what,
            on,
            by,
            words,
            warm_up_seconds_min: 0.0,
        }
    }

    const fn warmed_up(mut self, seconds: f64) -> Self {
        self.warm_up_seconds_min = seconds;
        self
    }

    pub(super) fn warm_up_seconds(&self, options: &Options) -> f64 {
        options.warm_up_seconds.max(self.warm_up_seconds_min)
    }

    /// What must be installed for it, besides what must be there anyway.
    pub(super) fn needs(&self) -> Option<&'static str> {
        match (self.on, self.by) {
            (Target::Etcd, _) => Some("etcd"),
            (_, Driver::Redisson) => Some("redisson"),
            _ => None,
        }
    }

    /// What a crash loses, of what it does its work on.
    pub(super) fn durability(&self) -> &'static str {
        match self.on {
            Target::Coordinator | Target::Redis => "Redis without fsync",
            Target::Embedded => "memory",
            Target::Bare => "nothing kept",
            Target::Etcd => "etcd, data on tmpfs",
        }
    }
}

use Driver::{Anchor, Bench, Blocked, Redisson, Watch};
use Target::{Bare, Coordinator, Embedded, Etcd, Redis};

/// All of them. What is compared stands next to each other, so that it meets the same weather on
/// the machine.
pub(super) const ALL: &[Measurement] = &[
    Measurement::new(
        "rpc-64",
        "`TryAcquire` and `Release`, RPCs, 64 in flight",
        Coordinator,
        Bench,
        "uncontended --in-flight 64",
    ),
    Measurement::new(
        "bare-rpc-64",
        "the bare server, RPCs, 64 in flight",
        Bare,
        Bench,
        "uncontended --in-flight 64",
    ),
    Measurement::new(
        "raw-64",
        "the same scripts on Redis, no service, 64 in flight",
        Redis,
        Anchor,
        "raw --in-flight 64",
    ),
    Measurement::new(
        "frames-64",
        "`TryAcquire` and `Release`, frames, 64 in flight",
        Coordinator,
        Bench,
        "uncontended --frames --in-flight 64",
    ),
    Measurement::new(
        "bare-frames-64",
        "the bare server, frames, 64 in flight",
        Bare,
        Bench,
        "uncontended --frames --in-flight 64",
    ),
    Measurement::new(
        "raw-frames-64",
        "the same scripts on Redis as for frames, no service, 64 in flight",
        Redis,
        Anchor,
        "raw --frames --in-flight 64",
    ),
    Measurement::new(
        "embedded-64",
        "`TryAcquire` and `Release`, RPCs, 64 in flight, embedded store",
        Embedded,
        Bench,
        "uncontended --in-flight 64",
    ),
    Measurement::new(
        "rpc-256",
        "`TryAcquire` and `Release`, RPCs, 256 in flight",
        Coordinator,
        Bench,
        "uncontended --in-flight 256",
    ),
    Measurement::new(
        "bare-rpc-256",
        "the bare server, RPCs, 256 in flight",
        Bare,
        Bench,
        "uncontended --in-flight 256",
    ),
    Measurement::new(
        "raw-256",
        "the same scripts on Redis, no service, 256 in flight",
        Redis,
        Anchor,
        "raw --in-flight 256",
    ),
    Measurement::new(
        "frames-256",
        "`TryAcquire` and `Release`, frames, 256 in flight",
        Coordinator,
        Bench,
        "uncontended --frames --in-flight 256",
    ),
    Measurement::new(
        "bare-frames-256",
        "the bare server, frames, 256 in flight",
        Bare,
        Bench,
        "uncontended --frames --in-flight 256",
    ),
    Measurement::new(
        "raw-frames-256",
        "the same scripts on Redis as for frames, no service, 256 in flight",
        Redis,
        Anchor,
        "raw --frames --in-flight 256",
    ),
    Measurement::new(
        "rslock-256",
        "rslock, lock and unlock, 256 in flight",
        Redis,
        Anchor,
        "rslock --in-flight 256",
    ),
    Measurement::new(
        "rpc-1",
        "`TryAcquire` and `Release`, RPCs, one caller",
        Coordinator,
        Bench,
        "uncontended --in-flight 1",
    ),
    Measurement::new(
        "bare-rpc-1",
        "the bare server, RPCs, one caller",
        Bare,
        Bench,
        "uncontended --in-flight 1",
    ),
    Measurement::new(
        "raw-1",
        "the same scripts on Redis, no service, one caller",
        Redis,
        Anchor,
        "raw --in-flight 1",
    ),
    Measurement::new(
        "handover-64",
        "one lock, 64 waiters, RPCs",
        Coordinator,
        Bench,
        "handover --in-flight 64 --threads 1",
    ),
    Measurement::new(
        "handover-10000",
        "one lock, 10,000 waiters, RPCs",
        Coordinator,
        Bench,
        "handover --in-flight 10000 --threads 1",
    )
    .warmed_up(CROWD_WARM_UP_SECONDS_MIN),
    Measurement::new(
        "handover-frames-64",
        "one lock, 64 waiters, frames",
        Coordinator,
        Bench,
        "handover --frames --in-flight 64 --threads 1",
    ),
    Measurement::new(
        "etcd-hot-64",
        "etcd v3lock, one lock, 64 waiters",
        Etcd,
        Anchor,
        "etcd --hot --in-flight 64 --threads 1",
    ),
    Measurement::new(
        "redisson-hot-64",
        "Redisson, one lock, 64 threads",
        Redis,
        Redisson,
        "hot 64",
    )
    .warmed_up(JAVA_WARM_UP_SECONDS_MIN),
    Measurement::new(
        "redisson-64",
        "Redisson, locks of their own, 64 threads",
        Redis,
        Redisson,
        "own 64",
    )
    .warmed_up(JAVA_WARM_UP_SECONDS_MIN),
    Measurement::new(
        "etcd-64",
        "etcd v3lock, locks of their own, 64 callers",
        Etcd,
        Anchor,
        "etcd --in-flight 64",
    ),
    Measurement::new(
        "fair-64",
        "one `FAIR` lock, 64 waiters, RPCs",
        Coordinator,
        Bench,
        "fair --in-flight 64",
    ),
    Measurement::new(
        "churn",
        "10,000 sessions: open, one grant, close",
        Coordinator,
        Bench,
        "churn --names 10000",
    ),
    Measurement::new("watch", "watched grants", Coordinator, Watch, "watch"),
    Measurement::new(
        "blocked",
        "blocked `Acquire` streams",
        Coordinator,
        Blocked,
        "waiters",
    ),
    Measurement::new(
        "bare-blocked",
        "idle streams of the bare server",
        Bare,
        Blocked,
        "waiters",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_have_the_same_name() {
        let names: BTreeSet<_> = ALL.iter().map(|it| it.name).collect();
        assert_eq!(names.len(), ALL.len());
    }

    #[test]
    fn what_needs_something_special_says_so() {
        let needing = |what| {
            let names = ALL.iter().filter(|it| it.needs() == Some(what));
            names.map(|it| it.name).collect::<Vec<_>>()
        };
        assert_eq!(needing("etcd"), ["etcd-hot-64", "etcd-64"]);
        assert_eq!(needing("redisson"), ["redisson-hot-64", "redisson-64"]);
    }
}
