//! Three masters, each with a replica.

use std::time::Duration;

use crate::{
    faults::Fault,
    row::{Promise, Row, long},
    world::{Kind, LEASE, Network, Setup},
};

const SECOND: Duration = Duration::from_secs(1);

/// Until the nodes have agreed, and then some.
const FAILOVER_MAX: Duration = Duration::from_secs(9);

const SETUP: Setup = Setup {
    kind: Kind::Cluster,
    server: &[],
    settings: &[],
    network: Network::Plain,
};

fn row(name: &'static str, fault: Fault) -> Row {
    Row {
        name,
        setup: SETUP,
        fault,
        promise: Promise::TokensOnly,
        // The other shards go on.
        outage_max: 2 * SECOND,
        outage_of_one_max: FAILOVER_MAX + LEASE,
        may_fail: true,
        may_lose: true,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_master_killed() {
    row("cluster master killed", Fault::MasterKilled)
        .run()
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_master_frozen_and_back() {
    let frozen = Fault::MasterFrozen(long(5 * SECOND, 15 * SECOND));
    row("cluster master frozen", frozen).run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_cut_off_from_one_coordinator() {
    let cut = long(LEASE + SECOND, 15 * SECOND);
    Row {
        setup: Setup {
            network: Network::OfFirst,
            ..SETUP
        },
        promise: Promise::Exclusion,
        outage_max: LEASE + SECOND,
        ..row("cluster cut off from 1 of 2", Fault::CutOff(cut))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_slot_of_a_used_lock_moved() {
    let moved = Fault::SlotMoved(long(4 * SECOND, 15 * SECOND));
    Row {
        promise: Promise::Exclusion,
        may_fail: false,
        may_lose: false,
        ..row("cluster slot moved", moved)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_forgets_its_scripts() {
    let flushed = Fault::ScriptsFlushed(long(2 * SECOND, 10 * SECOND));
    Row {
        promise: Promise::Exclusion,
        may_fail: false,
        may_lose: false,
        ..row("cluster SCRIPT FLUSH", flushed)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_kills_connections_of_wake_ups() {
    let killed = Fault::ClientsKilled("pubsub", long(2 * SECOND, 10 * SECOND));
    Row {
        promise: Promise::Exclusion,
        may_fail: false,
        may_lose: false,
        ..row("cluster CLIENT KILL pubsub", killed)
    }
    .run()
    .await;
}
