//! What breaks, and how it is broken. Each returns when the store can be used again.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::{Instant, sleep};

use crate::{
    redis_server::eventually,
    tcp_proxy::TcpProxy,
    world::{LEASE, Store, World},
};

/// Between two strikes of those that strike repeatedly.
const BEAT: Duration = Duration::from_millis(200);

/// Something that breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The master is killed and comes back with what it has on disk; or another takes over, and it comes back as a replica.
    MasterKilled,
    /// The master is frozen, for this long at least and until another has taken over if one can.
    MasterFrozen(Duration),
    /// The first coordinator and the servers do not reach each other.
    CutOff(Duration),
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
    /// No replica hears from the master any more, and after this long it dies and one of them takes over.
    WritesLost(Duration),
    /// No replica hears from the master for this long.
    ReplicasAway(Duration),
    /// A coordinator is killed, with all that it looks after, and comes back.
    CoordinatorKilled,
    /// A coordinator is frozen for this long.
    CoordinatorFrozen(Duration),
    /// One coordinator after the other is stopped in the proper way and started again.
    CoordinatorsReplaced,
}

impl Fault {
    /// Breaks it.
    pub(crate) async fn strike(self, world: &mut World) {
        match self {
            Self::MasterKilled => master_killed(&mut world.store).await,
            Self::MasterFrozen(long) => master_frozen(&world.store, long).await,
            Self::CutOff(long) => {
                world.proxies.iter().for_each(TcpProxy::cut);
                sleep(long).await;
                world.proxies.iter().for_each(TcpProxy::heal);
            }
            Self::ScriptsFlushed(long) => again(&world.store, &["SCRIPT", "FLUSH"], long).await,
            Self::ClientsKilled(kind, long) => {
                let words = ["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"];
                again(&world.store, &words, long).await;
            }
            Self::OutOfMemory(long) => {
                let master = &world.store.servers()[world.store.master().await];
                master.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
                sleep(long).await;
                master.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
            }
            Self::Flushed => {
                let master = world.store.master().await;
                world.store.servers()[master].command(&["FLUSHALL"]).await;
            }
            Self::Busy(long) => busy(&world.store, long).await,
            Self::WritesLost(long) => {
                let before = world.store.master().await;
                deafen(&world.store, before).await;
                sleep(long).await;
                world.store.server_mut(before).kill();
                world.store.until_taken_over(before).await;
            }
            Self::ReplicasAway(long) => {
                let master = world.store.master().await;
                let port = world.store.servers()[master].port().to_string();
                deafen(&world.store, master).await;
                sleep(long).await;
                replicate_from(&world.store, master, &port).await;
            }
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
        }
    }

    /// What has to be whole again before the same can be done once more.
    pub(crate) async fn mend(self, world: &mut World) {
        match self {
            Self::WritesLost(_) => {
                revive(&mut world.store).await;
                world.store.until_replicated().await;
            }
            Self::MasterKilled | Self::MasterFrozen(_) | Self::ReplicasAway(_) => {
                world.store.until_replicated().await;
            }
            _ => {}
        }
    }
}

async fn master_killed(store: &mut Store) {
    let before = store.master().await;
    store.server_mut(before).kill();
    if matches!(store, Store::Sentinel(_)) {
        store.until_taken_over(before).await;
    }
    store.server_mut(before).restart_on_same_port().await;
}

/// Starts again what is dead.
async fn revive(store: &mut Store) {
    for number in 0..store.servers().len() {
        let server = store.server_mut(number);
        if !server.is_running() {
            server.restart_on_same_port().await;
        }
    }
}

async fn master_frozen(store: &Store, long: Duration) {
    let before = store.master().await;
    let until = Instant::now() + long;
    store.servers()[before].stop();
    if matches!(store, Store::Sentinel(_)) {
        store.until_taken_over(before).await;
    }
    tokio::time::sleep_until(until).await;
    store.servers()[before].cont();
}

async fn again(store: &Store, words: &[&str], long: Duration) {
    let master = &store.servers()[store.master().await];
    let until = Instant::now() + long;
    while Instant::now() < until {
        master.command(words).await;
        sleep(BEAT).await;
    }
}

/// Servers say that they are busy, instead of nothing, once a script has run for a while.
async fn busy(store: &Store, long: Duration) {
    let master = &store.servers()[store.master().await];
    master
        .command(&["CONFIG", "SET", "busy-reply-threshold", "100"])
        .await;
    let spin = "local t = redis.call('TIME'); local e = t[1] * 1000 + t[2] / 1000 + ARGV[1]; \
                repeat t = redis.call('TIME') until t[1] * 1000 + t[2] / 1000 > e";
    let millis = long.as_millis().to_string();
    master.command(&["EVAL", spin, "0", &millis]).await;
}

/// Replicas go on believing that they follow the master, and hear nothing: they ask at a port where nobody is. The sentinels would only mend that after seconds.
async fn deafen(store: &Store, master: usize) {
    for (number, server) in store.servers().iter().enumerate() {
        if number != master {
            server.connect_anew().await;
            server.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
        }
    }
}

async fn replicate_from(store: &Store, master: usize, port: &str) {
    for (number, server) in store.servers().iter().enumerate() {
        if number != master {
            server.connect_anew().await;
            server.command(&["REPLICAOF", "127.0.0.1", port]).await;
        }
    }
    eventually("the replicas hear from the master", || async {
        let info = store.servers()[master].info("replication").await;
        info.matches("state=online").count() + 1 == store.servers().len()
    })
    .await;
}
