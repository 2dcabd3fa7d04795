//! A master with two replicas and three sentinels.

use std::time::Duration;

use crate::{
    faults::Fault,
    row::{Promise, Row, long},
    world::{Kind, LEASE, Network, Setup},
};

const SECOND: Duration = Duration::from_secs(1);

/// Until the sentinels have agreed, and then some.
const FAILOVER_MAX: Duration = Duration::from_secs(9);

const SETUP: Setup = Setup {
    kind: Kind::Sentinel,
    server: &["--min-replicas-to-write", "0"],
    settings: &[],
    network: Network::Plain,
};

/// Grants count when a replica has them.
const ACKS: [(&str, &str); 2] = [
    ("store.replica_acks", "1"),
    ("store.replica_ack_timeout", "300ms"),
];

/// Both sides believe that they are the deployment.
const PARTED: Fault = Fault::Parted(Duration::from_secs(3));

fn row(name: &'static str, fault: Fault) -> Row {
    Row {
        name,
        setup: SETUP,
        fault,
        promise: Promise::TokensOnly,
        outage_max: FAILOVER_MAX,
        outage_of_one_max: FAILOVER_MAX + LEASE,
        may_fail: true,
        may_lose: true,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_master_killed() {
    row("sentinel master killed", Fault::MasterKilled)
        .run()
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_master_frozen_and_back() {
    let frozen = Fault::MasterFrozen(long(4 * SECOND, 15 * SECOND));
    Row {
        // It may be back in the moment in which another takes over, and serve those who have not
        // heard of that.
        promise: Promise::TwoStores,
        ..row("sentinel master frozen", frozen)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_cut_off_from_one_coordinator() {
    let cut = long(LEASE + SECOND, 15 * SECOND);
    Row {
        setup: Setup {
            network: Network::OfFirst,
            ..SETUP
        },
        promise: Promise::Exclusion,
        outage_max: LEASE + SECOND,
        ..row("sentinel cut off from 1 of 2", Fault::CutOff(cut))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_failover_that_loses_writes() {
    row(
        "sentinel failover that loses writes",
        Fault::WritesLost(3 * SECOND),
    )
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_failover_without_replicas_that_hear() {
    Row {
        setup: Setup {
            server: &[],
            ..SETUP
        },
        ..row(
            "loses writes, min-replicas 1",
            Fault::WritesLost(3 * SECOND),
        )
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_replicas_away() {
    let away = long(3 * SECOND, 6 * SECOND);
    Row {
        setup: Setup {
            server: &[],
            ..SETUP
        },
        promise: Promise::Exclusion,
        outage_max: away + LEASE + SECOND,
        outage_of_one_max: away + LEASE + SECOND + LEASE,
        ..row("sentinel NOREPLICAS", Fault::ReplicasAway(away))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_failover_that_loses_writes_with_acks() {
    Row {
        setup: Setup {
            settings: &ACKS,
            ..SETUP
        },
        ..row(
            "loses writes, replica_acks 1",
            Fault::WritesLost(3 * SECOND),
        )
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_master_killed_with_acks() {
    Row {
        setup: Setup {
            settings: &ACKS,
            ..SETUP
        },
        ..row("sentinel killed, replica_acks 1", Fault::MasterKilled)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_replicas_that_lag_with_acks() {
    let lag = long(3 * SECOND, 10 * SECOND);
    Row {
        setup: Setup {
            settings: &ACKS,
            ..SETUP
        },
        promise: Promise::Exclusion,
        outage_max: lag + LEASE + SECOND,
        outage_of_one_max: lag + 2 * LEASE,
        ..row("sentinel replicas lag, acks 1", Fault::ReplicasFrozen(lag))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_forgets_its_scripts() {
    let flushed = Fault::ScriptsFlushed(long(2 * SECOND, 10 * SECOND));
    Row {
        promise: Promise::Exclusion,
        may_fail: false,
        may_lose: false,
        ..row("sentinel SCRIPT FLUSH", flushed)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_kills_connections_of_wake_ups() {
    let killed = Fault::ClientsKilled("pubsub", long(2 * SECOND, 10 * SECOND));
    Row {
        promise: Promise::Exclusion,
        may_fail: false,
        may_lose: false,
        ..row("sentinel CLIENT KILL pubsub", killed)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_parted_with_one_coordinator() {
    Row {
        setup: Setup {
            network: Network::Halves,
            ..SETUP
        },
        promise: Promise::TwoStores,
        ..row("sentinel parted, 1 of 2 inside", PARTED)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_parted_with_one_coordinator_and_min_replicas() {
    Row {
        setup: Setup {
            server: &["--min-replicas-max-lag", "2"],
            network: Network::Halves,
            ..SETUP
        },
        promise: Promise::TwoStores,
        ..row("parted, min-replicas 1, lag 2 s", PARTED)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_parted_with_one_coordinator_and_acks() {
    Row {
        setup: Setup {
            settings: &ACKS,
            network: Network::Halves,
            ..SETUP
        },
        ..row("parted, replica_acks 1", PARTED)
    }
    .run()
    .await;
}
