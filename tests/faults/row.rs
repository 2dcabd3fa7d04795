//! A row of the table in `docs/robustness/rows.md`: contenders, a fault, and what may come of it.

use std::{env, fs, sync::Arc, time::Duration};

use lockkeeper_base::tasks::spawn_detached;
use tempfile::NamedTempFile;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    checker::{Bounds, check},
    contender::{self, Contender, Ring, SHORT},
    coordinator::Coordinator,
    ends::unended,
    fault::Fault,
    heartbeat,
    history::{At, History},
    judgement::{Outcome, Verdict},
    kinds::{self, User},
    line::Line,
    redis_server::eventually,
    redisson,
    time::say,
    world::{Clocks, Kind, LEASE, Network, Setup, WITNESS, World},
};

/// How many contend.
const CONTENDERS: usize = 32;

/// How long Redisson holds the lock.
const REDISSON_HOLDS: Duration = Duration::from_millis(2);

/// How long they go on after the fault, at the least.
const AFTER: Duration = Duration::from_millis(2500);

/// So often a run is repeated that shows nothing.
const REPEATS_MAX: usize = 3;

const SECOND: Duration = Duration::from_secs(1);

/// Until sentinels or nodes have agreed, and then some.
const FAILOVER_MAX: Duration = Duration::from_secs(9);

/// What a configuration promises while this fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Nobody relies on a lock together with another.
    Exclusion,
    /// The store may forget what it acknowledged; then only tokens protect.
    TokensOnly,
    /// There may be two stores for a while, each of which takes back what it gave.
    TwoStores,
}

/// A fault at a store, and what may come of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) setup: Setup,
    pub(crate) fault: Fault,
    pub(crate) promise: Promise,
    /// The longest time without any grant, and without one of a lock that is in constant use.
    pub(crate) outage_max: Duration,
    pub(crate) outage_of_one_max: Duration,
    /// Whether calls may fail, and whether grants may be lost and told so.
    pub(crate) may_fail: bool,
    pub(crate) may_lose: bool,
    /// Runs only if a run has a length: others show the same in short.
    pub(crate) only_long: bool,
}

/// Programs with the real Redisson, and the file of what they see.
struct Redisson {
    contenders: redisson::Contenders,
    history: NamedTempFile,
}

/// What a coordinator uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) memory: u64,
    pub(crate) files: usize,
}

/// When the faults of a run were, and whether another came on top.
struct Strikes {
    first: At,
    healed: At,
    stopped: At,
    count: u32,
    struck_again: bool,
    /// What the last coordinator used after the first quarter of the time, and at the end.
    used: [Usage; 2],
}

/// One Redis.
pub(crate) fn single(name: &'static str, fault: Fault) -> Row {
    Row {
        name,
        setup: Setup {
            kind: Kind::Single,
            server: &[],
            settings: &[],
            network: Network::Plain,
            clocks: Clocks::Steady,
            tls: false,
            redisson: false,
        },
        fault,
        promise: Promise::Exclusion,
        outage_max: 2 * SECOND,
        outage_of_one_max: LEASE + 2 * SECOND,
        may_fail: true,
        may_lose: false,
        only_long: false,
    }
}

/// A master with two replicas and three sentinels.
pub(crate) fn sentinel(name: &'static str, fault: Fault) -> Row {
    let row = single(name, fault)
        .promises(Promise::TokensOnly)
        .may_lose()
        .outage(FAILOVER_MAX)
        .outage_of_one(FAILOVER_MAX + LEASE);
    row.kind(Kind::Sentinel)
        .server(&["--min-replicas-to-write", "0"])
}

/// Three masters, each with a replica. The other shards go on.
pub(crate) fn cluster(name: &'static str, fault: Fault) -> Row {
    let row = single(name, fault)
        .promises(Promise::TokensOnly)
        .may_lose()
        .outage_of_one(FAILOVER_MAX + LEASE);
    row.kind(Kind::Cluster)
}

/// Five servers that know nothing of each other, of which a majority decides.
pub(crate) fn quorum(name: &'static str, fault: Fault) -> Row {
    let row = single(name, fault)
        .outage(3 * SECOND)
        .outage_of_one(LEASE + 3 * SECOND);
    row.kind(Kind::Quorum)
}

/// What the fast version does for a moment, and the long one for longer.
pub(crate) fn long(fast: Duration, long: Duration) -> Duration {
    if fault_seconds().is_zero() {
        fast
    } else {
        long
    }
}

/// A run's length; one strike if it is zero.
pub(crate) fn fault_seconds() -> Duration {
    Duration::from_secs(number("FAULT_SECONDS").unwrap_or(0))
}

/// Decides who wants what when; what the machine makes of it is another matter.
fn seed() -> u64 {
    number("FAULT_SEED").unwrap_or_else(rand::random)
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().and_then(|it| it.parse().ok())
}

// === impl Row ===

impl Row {
    fn kind(mut self, kind: Kind) -> Self {
        self.setup.kind = kind;
        self
    }

    /// With these arguments for every redis-server.
    pub(crate) fn server(mut self, arguments: &'static [&'static str]) -> Self {
        self.setup.server = arguments;
        self
    }

    /// With these settings of the coordinators.
    pub(crate) fn settings(mut self, settings: &'static [(&'static str, &'static str)]) -> Self {
        self.setup.settings = settings;
        self
    }

    pub(crate) fn network(mut self, network: Network) -> Self {
        self.setup.network = network;
        self
    }

    pub(crate) fn clocks(mut self, clocks: Clocks) -> Self {
        self.setup.clocks = clocks;
        self
    }

    /// With TLS between coordinators and servers.
    pub(crate) fn tls(mut self) -> Self {
        self.setup.tls = true;
        self
    }

    /// Beside programs with the real Redisson.
    pub(crate) fn beside_redisson(mut self) -> Self {
        self.setup.redisson = true;
        self
    }

    pub(crate) fn promises(self, promise: Promise) -> Self {
        Self { promise, ..self }
    }

    pub(crate) fn outage(self, outage_max: Duration) -> Self {
        Self { outage_max, ..self }
    }

    pub(crate) fn outage_of_one(self, outage_of_one_max: Duration) -> Self {
        Self {
            outage_of_one_max,
            ..self
        }
    }

    /// The store is away for this long.
    pub(crate) fn away(self, long: Duration) -> Self {
        let outage = long + LEASE + SECOND;
        self.outage(outage).outage_of_one(outage + LEASE)
    }

    pub(crate) fn may_lose(self) -> Self {
        Self {
            may_lose: true,
            ..self
        }
    }

    pub(crate) fn only_long(self) -> Self {
        Self {
            only_long: true,
            ..self
        }
    }

    /// All of it at random, for as long as wanted.
    pub(crate) fn soak(self) -> Self {
        self.may_lose().only_long()
    }

    /// No call fails, and nothing is lost.
    pub(crate) fn harmless(self) -> Self {
        Self {
            may_fail: false,
            may_lose: false,
            ..self.promises(Promise::Exclusion)
        }
    }

    /// What the other one's clients hold is over after a lease.
    pub(crate) fn one_coordinator_goes_on(self) -> Self {
        let row = self.promises(Promise::Exclusion).may_lose();
        row.outage(LEASE + SECOND)
    }

    /// Makes a run that shows something, and judges it.
    pub(crate) async fn run(self) {
        if self.only_long && fault_seconds().is_zero() {
            say(&format!("row {:<34} only with FAULT_SECONDS", self.name));
            return;
        }
        for _ in 0..=REPEATS_MAX {
            match self.run_once().await {
                Verdict::Kept => return,
                Verdict::Void(why) => say(&format!("row {:<34} VOID: {why}", self.name)),
                Verdict::Broken(why) => panic!("{}: {why}", self.name),
                Verdict::Skipped(why) => return say(&format!("SKIPPED row {}: {why}", self.name)),
            }
        }
        panic!(
            "{}: no run shows anything, the machine is too busy",
            self.name
        );
    }

    async fn run_once(&self) -> Verdict {
        let seed = seed();
        let mut world = match World::start(&self.setup, self.may_fail).await {
            Ok(world) => world,
            Err(missing) => return Verdict::Skipped(missing),
        };
        let coordinators = world.coordinators.iter().map(Coordinator::address);
        let ring = Arc::new(Ring::of(coordinators.collect()));
        heartbeat::begin();
        let begun = Instant::now();
        let contenders = (0..CONTENDERS).map(|number| {
            let contender = Contender::new(ring.clone(), number, seed);
            AbortOnDropHandle::new(spawn_detached("contender", contender.run()))
        });
        let mut contenders: Vec<_> = contenders.collect();
        contenders.extend(self.users(&world, &ring, seed).await);
        let redisson = match self.setup.redisson.then(|| Redisson::start(&world)) {
            Some(Err(missing)) => return Verdict::Skipped(missing),
            Some(Ok(redisson)) => Some(redisson),
            None => None,
        };
        let grants = || ring.history.grants();
        eventually("all contend", || async { grants() > 10 * CONTENDERS }).await;
        let used = |lines: &[Line]| kinds::idle(lines, [At::ZERO; 2]).len();
        let wanted = kinds::count(self.setup.kind);
        let all_used = || async { ring.kinds.look(used) == wanted };
        eventually("all kinds are used", all_used).await;
        let strikes = self.strike(&mut world, &ring).await;
        let unended = unended(contenders).await;
        world
            .coordinators
            .iter_mut()
            .for_each(|it| it.assert_alive());
        if let Some(redisson) = redisson {
            redisson.end(&ring.history).await;
        }
        let bounds = Bounds {
            lease: LEASE,
            busy: SHORT,
            fault: strikes.first,
            healed: strikes.healed,
            stopped: strikes.stopped,
            end: ring.history.now(),
            lateness: heartbeat::lateness(begun, Instant::now()),
        };
        let events = ring.history.take();
        let outcome = Outcome {
            row: self,
            seed,
            strikes: strikes.count,
            struck_again: strikes.struck_again,
            used: strikes.used,
            findings: check(&events, &bounds),
            bounds,
            unended,
            ring: &ring,
            kinds: ring.kinds.take(),
        };
        say(&outcome.line());
        outcome.judge(&events)
    }

    /// Starts the users of all kinds.
    async fn users(
        &self,
        world: &World,
        ring: &Arc<Ring>,
        seed: u64,
    ) -> Vec<AbortOnDropHandle<()>> {
        let kind = self.setup.kind;
        kinds::prepare(ring, world, kind).await;
        let latch = watch::Sender::default();
        let all = kinds::uses(kind).into_iter().enumerate();
        let handles = all.map(|(number, uses)| {
            let it = User::new(ring, world, number, seed, &latch);
            AbortOnDropHandle::new(spawn_detached("user", it.run(uses)))
        });
        handles.collect()
    }

    /// Breaks things until the time is over, and then lets the contenders end.
    async fn strike(&self, world: &mut World, ring: &Ring) -> Strikes {
        let first = ring.history.now();
        let until = Instant::now() + fault_seconds();
        let (mut count, mut used) = (0, None);
        let quarter = Instant::now() + fault_seconds() / 4;
        let (healed, epoch) = loop {
            self.fault.strike(world).await;
            count += 1;
            let healed = (ring.history.now(), world.store.epoch().await);
            sleep(AFTER).await;
            if Instant::now() >= quarter {
                used.get_or_insert_with(|| Usage::of(world));
            }
            if Instant::now() >= until || !self.fault.can_strike_again() {
                break healed;
            }
            self.fault.mend(world).await;
            // A grant whose outcome nobody knows may keep its lock for a lease. Two long faults in
            // which a lock cannot be had must not be one.
            if self.outage_max > 2 * LEASE {
                sleep(LEASE).await;
            }
        };
        let used_last = Usage::of(world);
        let stopped = ring.history.now();
        ring.stop.cancel();
        Strikes {
            first,
            healed,
            stopped,
            count,
            struck_again: world.store.epoch().await != epoch,
            used: [used.unwrap_or(used_last), used_last],
        }
    }
}

// === impl Redisson ===

impl Redisson {
    /// They end while the others still contend. Says what it needs if that is missing.
    fn start(world: &World) -> Result<Self, String> {
        let missing = "the programs with Redisson: scripts/build-redisson-agent current 4.7.0";
        let folder = redisson::built().ok_or(missing)?;
        let history = NamedTempFile::new().map_err(|error| error.to_string())?;
        let (store, lock) = (world.store.in_java(), contender::name(WITNESS));
        let times = [fault_seconds().max(SECOND), REDISSON_HOLDS];
        let started = redisson::Contenders::start(&folder, &store, &lock, times, history.path());
        Ok(Self {
            contenders: started.map_err(|error| error.to_string())?,
            history,
        })
    }

    /// Waits for their ends, and adds what they saw.
    async fn end(self, history: &History) {
        let ended = self.contenders.end().await;
        ended.expect("they end by themselves");
        let lines = fs::read_to_string(&self.history).expect("their history");
        let granted = lines.matches("\"granted\"").count();
        say(&format!("Redisson was granted the lock {granted} times"));
        assert!(granted > 0, "Redisson did not contend");
        let added = history.add(&lines, CONTENDERS, WITNESS);
        added.expect("lines of a history");
    }
}

// === impl Usage ===

impl Usage {
    fn of(world: &World) -> Self {
        let last = world.coordinators.last().expect("there are two");
        Self {
            memory: last.memory(),
            files: last.open_files(),
        }
    }
}
