//! The harness: coordinators and clients in one process, over in-memory connections, on the
//! embedded store, under a clock that stands still until everybody waits. Tests read as steps:
//! `world.client(0)`, `session.acquire("a")`, `session.expect_lost("a")`.

mod arrived;
mod faults;
pub(crate) mod hosts;
mod network;
pub(crate) mod prelude;
mod roads;
mod world;

pub(crate) use faults::{Faults, FaultyHost};
pub(crate) use lockkeeper_testkit::{
    client::{self, reason},
    counters, expect, modes, several,
    time::{millis, secs},
};
pub(crate) use network::Network;
pub(crate) use world::{Options, World};

use std::{future::Future, time::Duration};

use tokio::time::Instant;

/// Waits until the condition holds, looking again after longer and longer pauses of the paused
/// clock; fails after a minute of it.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let give_up = Instant::now() + Duration::from_secs(60);
    let mut pause = Duration::from_millis(2);
    while !condition().await {
        assert!(Instant::now() < give_up, "never happened: {what}");
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(Duration::from_millis(100));
    }
}
