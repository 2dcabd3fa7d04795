//! A master with two replicas and three sentinels.

use std::time::Duration;

use crate::{
    faults::Fault,
    row::{Promise, Row, long},
    world::{Kind, LEASE, Setup},
};

const SECOND: Duration = Duration::from_secs(1);

/// Until the sentinels have agreed, and then some.
const FAILOVER_MAX: Duration = Duration::from_secs(9);

const SETUP: Setup = Setup {
    kind: Kind::Sentinel,
    server: &["--min-replicas-to-write", "0"],
    settings: &[],
    is_proxied: false,
};

fn row(name: &'static str, fault: Fault) -> Row {
    Row {
        name,
        setup: SETUP,
        fault,
        promise: Promise::TokensOnly,
        outage_max: FAILOVER_MAX,
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
    row("sentinel master frozen", frozen).run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_cut_off_from_one_coordinator() {
    let cut = long(LEASE + SECOND, 15 * SECOND);
    Row {
        setup: Setup {
            is_proxied: true,
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
            "the same, min-replicas-to-write 1",
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
        ..row("sentinel NOREPLICAS", Fault::ReplicasAway(away))
    }
    .run()
    .await;
}
