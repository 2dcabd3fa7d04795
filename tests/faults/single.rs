//! One Redis.

use std::time::Duration;

use crate::{
    faults::Fault,
    row::{Promise, Row, long},
    world::{Kind, LEASE, Network, Setup},
};

const SECOND: Duration = Duration::from_secs(1);

const SETUP: Setup = Setup {
    kind: Kind::Single,
    server: &[],
    settings: &[],
    network: Network::Plain,
};

fn row(name: &'static str, fault: Fault) -> Row {
    Row {
        name,
        setup: SETUP,
        fault,
        promise: Promise::Exclusion,
        outage_max: 2 * SECOND,
        outage_of_one_max: LEASE + 2 * SECOND,
        may_fail: true,
        may_lose: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_killed_and_restarted_with_its_file() {
    row("single killed", Fault::MasterKilled).run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_killed_and_restarted_empty() {
    Row {
        setup: Setup {
            server: &["--appendonly", "no"],
            ..SETUP
        },
        promise: Promise::TokensOnly,
        may_lose: true,
        ..row("single killed, back empty", Fault::MasterKilled)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_frozen_for_less_than_a_lease() {
    let frozen = Fault::MasterFrozen(SECOND);
    Row {
        outage_max: 4 * SECOND,
        ..row("single frozen 1 s", frozen)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_frozen_for_more_than_a_lease() {
    let frozen = long(LEASE + SECOND, 15 * SECOND);
    Row {
        outage_max: frozen + LEASE + SECOND,
        outage_of_one_max: frozen + LEASE + SECOND + LEASE,
        may_lose: true,
        ..row("single frozen for long", Fault::MasterFrozen(frozen))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_cut_off_from_one_coordinator() {
    let cut = long(LEASE + SECOND, 15 * SECOND);
    Row {
        setup: Setup {
            network: Network::OfFirst,
            ..SETUP
        },
        // The other coordinator goes on; what the first one's clients hold is over after a lease.
        outage_max: LEASE + SECOND,
        may_lose: true,
        ..row("single cut off from 1 of 2", Fault::CutOff(cut))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_forgets_its_scripts() {
    let flushed = Fault::ScriptsFlushed(long(2 * SECOND, 10 * SECOND));
    Row {
        may_fail: false,
        outage_max: SECOND,
        ..row("single SCRIPT FLUSH", flushed)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_kills_connections_of_wake_ups() {
    let killed = Fault::ClientsKilled("pubsub", long(2 * SECOND, 10 * SECOND));
    Row {
        may_fail: false,
        outage_max: 2 * SECOND,
        ..row("single CLIENT KILL pubsub", killed)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_kills_connections_of_commands() {
    let killed = Fault::ClientsKilled("normal", long(2 * SECOND, 10 * SECOND));
    row("single CLIENT KILL normal", killed).run().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_out_of_memory() {
    let full = long(2 * SECOND, 10 * SECOND);
    Row {
        outage_max: full + 2 * SECOND,
        outage_of_one_max: full + 2 * SECOND + LEASE,
        ..row("single out of memory", Fault::OutOfMemory(full))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_flushed() {
    Row {
        promise: Promise::TokensOnly,
        may_lose: true,
        ..row("single FLUSHALL", Fault::Flushed)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_busy_with_a_slow_script() {
    // No longer than what a renewal leaves of a lease at the least.
    let busy = 2 * SECOND;
    Row {
        outage_max: busy + 3 * SECOND,
        outage_of_one_max: busy + 3 * SECOND + LEASE,
        ..row("single busy with a slow script", Fault::Busy(busy))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinator_killed() {
    Row {
        outage_max: LEASE + SECOND,
        may_lose: true,
        ..row("coordinator killed", Fault::CoordinatorKilled)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinator_frozen_for_more_than_a_lease() {
    let frozen = long(LEASE + SECOND, 15 * SECOND);
    Row {
        outage_max: LEASE + SECOND,
        may_lose: true,
        ..row("coordinator frozen", Fault::CoordinatorFrozen(frozen))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinators_replaced_one_by_one() {
    row("coordinators replaced", Fault::CoordinatorsReplaced)
        .run()
        .await;
}
