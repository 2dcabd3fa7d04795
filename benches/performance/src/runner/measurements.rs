//! What is measured in each round, in this order. The names are those in the file of results.

use super::{
    results::Options,
    servers::{REDIS_8, Store, VALKEY_9},
};

/// Setting of the coordinator for acquires and releases by commands of Redis.
pub(super) const NATIVE: &[(&str, &str)] = &[("store.native_commands", "true")];

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
    /// Of the coordinator, besides its defaults.
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// Instead of the Redis of PATH.
    pub(super) store: Option<Store>,
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
    /// `lockkeeper bench`, for a time, while the servers' processor time is looked at.
    Bench,
    /// `lockkeeper bench`, until some work is done.
    Batch,
    /// `lockkeeper bench waiters`, while the server's memory is looked at.
    Blocked,
    /// `lockkeeper bench watch`, while commands of Redis and the server's time are counted.
    Watch,
    /// A subcommand of this program; the rest as for `Bench`.
    Anchor,
    /// The Java program; the rest as for `Bench`.
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
            settings: &[],
            store: None,
            warm_up_seconds_min: 0.0,
        }
    }

    const fn set(mut self, settings: &'static [(&'static str, &'static str)]) -> Self {
        self.settings = settings;
        self
    }

    const fn stored_by(mut self, store: Store) -> Self {
        self.store = Some(store);
        self
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
            _ => self.store.map(|store| store.name),
        }
    }

    /// What a crash loses, of what it does its work on.
    pub(super) fn durability(&self) -> String {
        let store = self.store.map_or("Redis", |store| store.title);
        match self.on {
            Target::Coordinator | Target::Redis => format!("{store} without fsync"),
            Target::Embedded => "memory".to_owned(),
            Target::Bare => "nothing kept".to_owned(),
            Target::Etcd => "etcd, data on tmpfs".to_owned(),
        }
    }
}

use Driver::{Anchor, Batch, Bench, Blocked, Redisson, Watch};
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
        "rslock-64",
        "rslock, lock and unlock, 64 in flight",
        Redis,
        Anchor,
        "rslock --in-flight 64",
    ),
    Measurement::new(
        "frames-64",
        "`TryAcquire` and `Release`, frames, 64 in flight",
        Coordinator,
        Bench,
        "uncontended --frames --in-flight 64",
    ),
    Measurement::new(
        "native-frames-64",
        "`TryAcquire` and `Release`, native commands, frames, 64 in flight",
        Coordinator,
        Bench,
        "uncontended --frames --in-flight 64",
    )
    .set(NATIVE),
    Measurement::new(
        "bare-frames-64",
        "the bare server, frames, 64 in flight",
        Bare,
        Bench,
        "uncontended --frames --in-flight 64",
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
        "frames-256",
        "`TryAcquire` and `Release`, frames, 256 in flight",
        Coordinator,
        Bench,
        "uncontended --frames --in-flight 256",
    ),
    Measurement::new(
        "native-frames-256",
        "`TryAcquire` and `Release`, native commands, frames, 256 in flight",
        Coordinator,
        Bench,
        "uncontended --frames --in-flight 256",
    )
    .set(NATIVE),
    Measurement::new(
        "bare-frames-256",
        "the bare server, frames, 256 in flight",
        Bare,
        Bench,
        "uncontended --frames --in-flight 256",
    ),
    Measurement::new(
        "rslock-256",
        "rslock, lock and unlock, 256 in flight",
        Redis,
        Anchor,
        "rslock --in-flight 256",
    ),
    Measurement::new(
        "native-frames-256-redis-8",
        "`TryAcquire` and `Release`, native commands, frames, 256 in flight",
        Coordinator,
        Bench,
        "uncontended --frames --in-flight 256",
    )
    .set(NATIVE)
    .stored_by(REDIS_8),
    Measurement::new(
        "rslock-256-redis-8",
        "rslock, lock and unlock, 256 in flight",
        Redis,
        Anchor,
        "rslock --in-flight 256",
    )
    .stored_by(REDIS_8),
    Measurement::new(
        "native-frames-256-valkey-9",
        "`TryAcquire` and `Release`, native commands, frames, 256 in flight",
        Coordinator,
        Bench,
        "uncontended --frames --in-flight 256",
    )
    .set(NATIVE)
    .stored_by(VALKEY_9),
    Measurement::new(
        "rslock-256-valkey-9",
        "rslock, lock and unlock, 256 in flight",
        Redis,
        Anchor,
        "rslock --in-flight 256",
    )
    .stored_by(VALKEY_9),
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
        "bare-frames-1",
        "the bare server, frames, one caller",
        Bare,
        Bench,
        "uncontended --frames --in-flight 1",
    ),
    Measurement::new(
        "rslock-1",
        "rslock, lock and unlock, one caller",
        Redis,
        Anchor,
        "rslock --in-flight 1",
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
        "native-handover-frames-64",
        "one lock, 64 waiters, native commands, frames",
        Coordinator,
        Bench,
        "handover --frames --in-flight 64 --threads 1",
    )
    .set(NATIVE),
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
        Batch,
        "churn --names 10000",
    ),
    Measurement::new("watch", "watched grants", Coordinator, Watch, "watch"),
    Measurement::new(
        "blocked",
        "blocked `Acquire` streams",
        Coordinator,
        Blocked,
        "waiters",
    )
    .set(CROWD),
    Measurement::new(
        "bare-blocked",
        "idle streams of the bare server",
        Bare,
        Blocked,
        "waiters",
    ),
];

#[cfg(test)]
#[path = "measurements_tests.rs"]
mod tests;
