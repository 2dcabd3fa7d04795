//! Five servers that know nothing of each other, of which a majority decides.

use std::time::Duration;

use crate::{
    faults::Fault,
    row::{Promise, Row, long},
    world::{Kind, LEASE, Network, Setup},
};

const SECOND: Duration = Duration::from_secs(1);

const SETUP: Setup = Setup {
    kind: Kind::Quorum,
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
        outage_max: 3 * SECOND,
        outage_of_one_max: LEASE + 3 * SECOND,
        may_fail: true,
        may_lose: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_two_of_five_down() {
    let down = Fault::MembersDown(2, long(LEASE + SECOND, 15 * SECOND));
    Row {
        // A renewal does not bring a grant to members that did not take it, so one that a bare
        // majority took is lost with one of those.
        may_lose: true,
        ..row("quorum 2 of 5 down", down)
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_three_of_five_down() {
    let away = long(LEASE + SECOND, 15 * SECOND);
    Row {
        outage_max: away + LEASE + SECOND,
        outage_of_one_max: away + LEASE + SECOND + LEASE,
        may_lose: true,
        ..row("quorum 3 of 5 down", Fault::MembersDown(3, away))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_cut_off_from_one_coordinator() {
    let cut = long(LEASE + SECOND, 15 * SECOND);
    Row {
        setup: Setup {
            network: Network::OfFirst,
            ..SETUP
        },
        outage_max: LEASE + SECOND,
        may_lose: true,
        ..row("quorum cut off from 1 of 2", Fault::CutOff(cut))
    }
    .run()
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_forgets_its_scripts() {
    let flushed = Fault::ScriptsFlushed(long(2 * SECOND, 10 * SECOND));
    Row {
        may_fail: false,
        ..row("quorum SCRIPT FLUSH", flushed)
    }
    .run()
    .await;
}
