//! What breaks, and how it is broken. Each returns when the store can be used again.

use std::time::Duration;

use deadpool_redis::redis::Value;
use nix::sys::signal::Signal;
use rand::RngExt as _;
use tokio::time::{Instant, sleep};

use crate::{
    contender::name,
    redis_server::{RedisServer, eventually},
    store::Store,
    tcp_proxy::TcpProxy,
    time::say,
    wire::Impairment,
    world::{LEASE, WITNESS, World},
};

/// Between two strikes of those that strike repeatedly.
const BEAT: Duration = Duration::from_millis(200);

/// A port at which nobody is.
const NOBODY: u16 = 1;

/// Something that breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The master is killed and comes back with what it has on disk; or another takes over, and it
    /// comes back as a replica.
    MasterKilled,
    /// The master is frozen, for this long at least and until another has taken over if one can.
    MasterFrozen(Duration),
    /// The first coordinator and the servers do not reach each other.
    CutOff(Duration),
    /// The first master and the first coordinator reach each other and nobody else, until another
    /// has taken over and then for this long.
    Parted(Duration),
    /// `SCRIPT FLUSH`, again and again.
    ScriptsFlushed(Duration),
    /// `CLIENT KILL TYPE`, again and again.
    ClientsKilled(&'static str, Duration),
    /// The master has no memory left.
    OutOfMemory(Duration),
    /// `FLUSHALL`.
    Flushed,
    /// A script of somebody else's runs for this long.
    Busy(Duration),
    /// No replica hears from the master any more, and after this long it dies and one of them takes
    /// over.
    WritesLost(Duration),
    /// No replica hears from the master for this long.
    ReplicasAway(Duration),
    /// This many members of a quorum are away.
    MembersDown(usize, Duration),
    /// A slot of a cluster is moved while the lock in it is used, again and again.
    SlotMoved(Duration),
    /// All replicas are frozen, and know of nothing meanwhile.
    ReplicasFrozen(Duration),
    /// A coordinator is killed, with all that it looks after, and comes back.
    CoordinatorKilled,
    /// A coordinator is frozen for this long.
    CoordinatorFrozen(Duration),
    /// One coordinator after the other is stopped in the proper way and started again.
    CoordinatorsReplaced,
    /// The wire of the first coordinator does this to what it sends, and that to what it is sent.
    Impaired([Impairment; 2], Duration),
    /// The master is killed while the wire of the first coordinator does this in both directions.
    MasterKilledOverWire(Impairment),
    /// The clocks that can step do so, by so many seconds.
    ClocksStepped(i64),
    /// One of these at random, and what it broke is mended at once.
    AnyOf(&'static [Fault]),
}

impl Fault {
    /// Afterwards the first master is one of the replicas, and stands alone behind its cut.
    pub(crate) fn can_strike_again(self) -> bool {
        !matches!(self, Self::Parted(_))
    }

    /// Breaks it.
    pub(crate) async fn strike(self, world: &mut World) {
        match self {
            Self::MasterKilled => master_killed(&mut world.store).await,
            Self::MasterFrozen(long) => master_frozen(&world.store, long).await,
            Self::CutOff(long) => cut(world, async |_| sleep(long).await).await,
            Self::Parted(long) => {
                let before = world.store.master().await;
                let parted = async |store: &Store| {
                    store.until_taken_over(before).await;
                    sleep(long).await;
                };
                cut(world, parted).await;
            }
            Self::ScriptsFlushed(long) => {
                let flush = async || on_masters(&world.store, &["SCRIPT", "FLUSH"]).await;
                again(flush, long).await;
            }
            Self::ClientsKilled(kind, long) => {
                again(async || kill_clients(&world.store, kind).await, long).await;
            }
            Self::OutOfMemory(long) => {
                on_masters(&world.store, &["CONFIG", "SET", "maxmemory", "1"]).await;
                sleep(long).await;
                on_masters(&world.store, &["CONFIG", "SET", "maxmemory", "0"]).await;
            }
            Self::Flushed => on_masters(&world.store, &["FLUSHALL"]).await,
            Self::Busy(long) => busy(&world.store, long).await,
            Self::WritesLost(long) => writes_lost(&mut world.store, long).await,
            Self::MembersDown(count, long) => members_down(&mut world.store, count, long).await,
            Self::ReplicasFrozen(long) => replicas_frozen(&world.store, long).await,
            Self::SlotMoved(long) => slot_moved(&world.store, long).await,
            Self::ReplicasAway(long) => replicas_away(&world.store, long).await,
            Self::CoordinatorKilled => {
                world.coordinators[0].kill();
                sleep(LEASE / 2).await;
                world.coordinators[0].restart_on_same_address().await;
            }
            Self::CoordinatorFrozen(long) => {
                world.coordinators[0].stop();
                sleep(long).await;
                world.coordinators[0].cont();
            }
            Self::CoordinatorsReplaced => {
                for coordinator in &mut world.coordinators {
                    coordinator.signal(Signal::SIGTERM);
                    coordinator.exit().await;
                    coordinator.restart_on_same_address().await;
                }
            }
            Self::Impaired(ways, long) => {
                world.impaired(ways, async |_| sleep(long).await).await;
            }
            Self::MasterKilledOverWire(impairment) => {
                world.impaired([impairment; 2], master_killed).await;
            }
            Self::ClocksStepped(seconds) => world.step_clocks(seconds),
            Self::AnyOf(faults) => {
                let fault = faults[rand::rng().random_range(..faults.len())];
                say(&format!("{fault:?}"));
                Box::pin(fault.strike(world)).await;
                Box::pin(fault.mend(world)).await;
            }
        }
    }

    /// What has to be whole again before the same can be done once more.
    pub(crate) async fn mend(self, world: &mut World) {
        match self {
            Self::MasterKilled
            | Self::MasterKilledOverWire(_)
            | Self::MasterFrozen(_)
            | Self::WritesLost(_)
            | Self::ReplicasAway(_)
            | Self::Parted(_)
            | Self::SlotMoved(_) => {
                world.store.until_replicated().await;
            }
            _ => {}
        }
    }
}

async fn cut(world: &World, meanwhile: impl AsyncFn(&Store)) {
    world.cuts.iter().for_each(TcpProxy::cut);
    meanwhile(&world.store).await;
    world.cuts.iter().for_each(TcpProxy::heal);
}

async fn writes_lost(store: &mut Store, long: Duration) {
    let before = store.master().await;
    follow(store, before, NOBODY).await;
    sleep(long).await;
    store.kill(before);
    store.until_taken_over(before).await;
    store.restart(before).await;
}

/// Frozen and killed by turns: both are no answer, in different ways.
async fn members_down(store: &mut Store, count: usize, long: Duration) {
    for member in 0..count {
        match member % 2 {
            0 => store.kill(member),
            _ => store.stop(member),
        }
    }
    sleep(long).await;
    for member in 0..count {
        match member % 2 {
            0 => store.restart(member).await,
            _ => store.cont(member),
        }
    }
}

async fn replicas_frozen(store: &Store, long: Duration) {
    let master = store.master().await;
    let replicas = || (0..store.len()).filter(|number| *number != master);
    replicas().for_each(|number| store.stop(number));
    sleep(long).await;
    replicas().for_each(|number| store.cont(number));
}

async fn replicas_away(store: &Store, long: Duration) {
    let master = store.master().await;
    follow(store, master, NOBODY).await;
    sleep(long).await;
    follow(store, master, store.server(master).port()).await;
    eventually("the replicas hear from the master", || async {
        let info = store.server(master).info("replication").await;
        info.matches("state=online").count() + 1 == store.len()
    })
    .await;
}

async fn master_killed(store: &mut Store) {
    let before = store.master().await;
    store.kill(before);
    if store.fails_over() {
        store.until_taken_over(before).await;
    }
    store.restart(before).await;
}

async fn master_frozen(store: &Store, long: Duration) {
    let before = store.master().await;
    let until = Instant::now() + long;
    store.stop(before);
    if store.fails_over() {
        store.until_taken_over(before).await;
    }
    tokio::time::sleep_until(until).await;
    store.cont(before);
}

async fn again(strike: impl AsyncFn(), long: Duration) {
    let until = Instant::now() + long;
    while Instant::now() < until {
        strike().await;
        sleep(BEAT).await;
    }
}

/// Cuts the coordinators' connections, but not those of sentinels, which would take the server for
/// dead and elect another.
async fn kill_clients(store: &Store, kind: &str) {
    for server in masters(store).await {
        let clients = server.command(&["CLIENT", "LIST", "TYPE", kind]).await;
        let clients = match clients {
            Value::BulkString(text) => String::from_utf8(text).unwrap(),
            Value::VerbatimString { text, .. } => text,
            other => panic!("{other:?}"),
        };
        let spared = |line: &&str| line.contains("sentinel") || line.contains("cmd=client");
        for line in clients.lines().filter(|line| !spared(line)) {
            let id = line.split(' ').find_map(|word| word.strip_prefix("id="));
            let kill = ["CLIENT", "KILL", "ID", id.expect("clients have ids")];
            server.command(&kill).await;
        }
    }
}

async fn on_masters(store: &Store, words: &[&str]) {
    for server in masters(store).await {
        server.command(words).await;
    }
}

/// Wherever locks are: every server that is no replica.
async fn masters(store: &Store) -> Vec<&RedisServer> {
    let mut masters = Vec::new();
    for server in store.servers() {
        // Sentinels cut the clients of servers that they tell whom to follow.
        server.connect_anew().await;
        if server.info("replication").await.contains("role:master") {
            masters.push(server);
        }
    }
    masters
}

/// Moves the slot of the lock on which most is seen from master to master, key by key, while it is
/// used.
async fn slot_moved(store: &Store, long: Duration) {
    let Store::Cluster(cluster) = store else {
        panic!("only a cluster has slots")
    };
    let until = Instant::now() + long;
    let slot = cluster.slot(&name(WITNESS)).await;
    while Instant::now() < until {
        let from = cluster.master_of_slot(slot).await.expect("it is served");
        let to = cluster.other_master(from).await;
        cluster.migrate(slot, to).await;
        sleep(BEAT).await;
    }
}

/// Servers say that they are busy, instead of nothing, once a script has run for a while.
async fn busy(store: &Store, long: Duration) {
    let master = store.server(store.master().await);
    master
        .command(&["CONFIG", "SET", "lua-time-limit", "100"])
        .await;
    let spin = "local t = redis.call('TIME'); local e = t[1] * 1000 + t[2] / 1000 + ARGV[1]; \
                repeat t = redis.call('TIME') until t[1] * 1000 + t[2] / 1000 > e";
    let millis = long.as_millis().to_string();
    master.command(&["EVAL", spin, "0", &millis]).await;
}

/// Tells the replicas of a master where it is. At a port where nobody is they go on believing that
/// they follow it, and hear nothing; the sentinels would only mend that after seconds.
async fn follow(store: &Store, master: usize, port: u16) {
    let port = port.to_string();
    for (number, server) in store.servers().enumerate() {
        if number != master {
            server.connect_anew().await;
            server.command(&["REPLICAOF", "127.0.0.1", &port]).await;
        }
    }
}
