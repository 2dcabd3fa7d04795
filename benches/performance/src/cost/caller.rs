//! Who calls: a client of Redis as the coordinator is one, with a lock of its own.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use lockkeeper_server::config::Settings;
use lockkeeper_store::{
    host::{
        Connected,
        redis::{RedisConfig, connect},
    },
    script::{Attempt, Config, Hold, Mode, Scripts, catalog, keys},
};
use redis::{Client, Script, aio::MultiplexedConnection, cmd};

/// The default lease of a session.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// As long as those that the coordinator makes.
pub(super) const ATTEMPT: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

/// How a lock library releases: it deletes the key if that is its own.
const DELETE_OWN: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
else
  return 0
end";

/// A Redis under callgrind is many times as slow as others.
const PATIENCE: Duration = Duration::from_secs(60);

/// The Redis: as the coordinator sees it, and without it.
pub(super) struct Stage {
    scripts: Scripts,
    renewing: Scripts,
    redis: MultiplexedConnection,
    /// Keeps the stream of messages.
    _connected: Connected,
}

/// One caller.
pub(super) struct Caller {
    pub(super) scripts: Scripts,
    /// The same, but without looks at counters.
    pub(super) renewing: Scripts,
    redis: MultiplexedConnection,
    delete_own: Script,
    /// What its names begin with.
    prefix: String,
    names: usize,
    grants: u64,
    pub(super) name: String,
    owners: [String; 2],
    /// Of its newest grant, if that names it.
    pub(super) field: String,
    /// Of its newest grant.
    pub(super) serial: u64,
}

// === impl Stage ===

impl Stage {
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let redis = Client::open(url)?;
        let redis = redis.get_multiplexed_async_connection().await?;
        let config = RedisConfig {
            url: url.to_owned(),
            call_timeout: PATIENCE,
            connect_timeout: PATIENCE,
            // Nothing but calls is to be counted.
            ping_interval: PATIENCE,
            scripts: &catalog::ALL,
            ..RedisConfig::default()
        };
        let connected = connect(&config)?;
        let store = Settings::default().store;
        let config = Config {
            idle_token_retention: store.idle_token_retention,
            request_retention: store.request_retention,
            fair_waiter_timeout: store.fair_waiter_timeout,
            writer_hold_back: store.writer_hold_back,
            holders_per_lock_max: 10_000,
            permits_per_name_max: 10_000,
            adopts_counters: true,
            native_commands: true,
        };
        // Between the looks at their counters, renewals are as if these were never deleted.
        let forever = Config {
            idle_token_retention: Duration::ZERO,
            ..config.clone()
        };
        Ok(Self {
            renewing: Scripts::new(connected.0.clone(), forever),
            scripts: Scripts::new(connected.0.clone(), config),
            redis,
            _connected: connected,
        })
    }

    /// A caller with an owner of a session.
    pub(super) fn caller(&self, row: usize, number: usize) -> Caller {
        let session = format!("6fa459ea-ee8a-3ca4-894e-{number:012}");
        let prefix = format!("cost-{row}-{number}");
        Caller {
            scripts: self.scripts.clone(),
            renewing: self.renewing.clone(),
            redis: self.redis.clone(),
            delete_own: Script::new(DELETE_OWN),
            name: prefix.clone(),
            prefix,
            names: 0,
            // Numbers of grants are this long.
            grants: 1_000_000_000_000_000,
            owners: ["0", "1"].map(|owner| format!("{session}:{owner}")),
            field: String::new(),
            serial: 0,
        }
    }
}

// === impl Caller ===

impl Caller {
    pub(super) fn owner(&self) -> &str {
        &self.owners[0]
    }

    pub(super) fn other(&self) -> &str {
        &self.owners[1]
    }

    pub(super) fn swap_owners(&mut self) {
        self.owners.swap(0, 1);
    }

    pub(super) fn hold(&self, mode: Mode) -> Hold<'_> {
        Hold::new(&self.name, mode, self.owner())
    }

    pub(super) fn hold_of_other(&self, mode: Mode) -> Hold<'_> {
        Hold::new(&self.name, mode, self.other())
    }

    /// An attempt of an owner with so many holds.
    pub(super) fn attempt(&self, known: u32) -> Attempt<'static> {
        Attempt {
            known_holds: Some(known),
            serial: (known > 0).then_some(self.serial),
            ..Attempt::new(ATTEMPT, 1_000_000_000_000_000)
        }
    }

    /// The name of an attempt that no other has.
    pub(super) fn new_attempt(&mut self) -> String {
        self.names += 1;
        format!("{}{:012}", &ATTEMPT[..24], self.names)
    }

    /// The field of a grant of its own.
    pub(super) fn next_field(&mut self) -> anyhow::Result<String> {
        self.grants += 1;
        let field = keys::grant_field(self.owner(), self.grants);
        field.context("the owner is in a session")
    }

    /// From now on its lock is one that nobody has used.
    pub(super) fn take_new_name(&mut self) {
        self.names += 1;
        self.name = self.name_of(self.names);
    }

    /// The newest of its names.
    pub(super) fn newest_names(&self, count: usize) -> impl Iterator<Item = String> + '_ {
        (self.names + 1 - count..=self.names).map(|number| self.name_of(number))
    }

    fn name_of(&self, number: usize) -> String {
        format!("{}-{number:06}", self.prefix)
    }

    /// What a lock library does that has no service in between.
    pub(super) async fn bare_pair(&mut self) -> anyhow::Result<()> {
        let lease = u64::try_from(LEASE.as_millis())?;
        let set: Option<String> = cmd("SET")
            .arg(&self.name)
            .arg(ATTEMPT)
            .arg("NX")
            .arg("PX")
            .arg(lease)
            .query_async(&mut self.redis)
            .await?;
        ensure!(set.is_some(), "{} is taken", self.name);
        let mut delete = self.delete_own.prepare_invoke();
        let deleted: u32 = delete
            .key(&self.name)
            .arg(ATTEMPT)
            .invoke_async(&mut self.redis)
            .await?;
        ensure!(deleted == 1, "{} is not its own", self.name);
        Ok(())
    }
}
