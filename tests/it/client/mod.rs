//! The client of the crate: sessions, guards, and what becomes of them when streams break.

mod elections;
mod free;
mod guards;
mod kinds;
mod resuming;
mod transfers;

use lockkeeper_client::{Guard, Session};

use crate::support::Network;
use crate::support::prelude::*;

/// Two coordinators on one store, and a session that knows both.
async fn two() -> (World, Network, Session) {
    let world = World::of(2);
    let network = world.network();
    let session = network.client(&[0, 1]).session().open().await.unwrap();
    (world, network, session)
}

async fn acquire(session: &Session, name: &str) -> Guard {
    session.lock(name).acquire().await.unwrap()
}

/// Lets all others go on by so many steps, in which no time passes.
async fn steps(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// The time until a guard is lost.
async fn until_lost(guard: &Guard) -> Duration {
    let begun = Instant::now();
    let lost = tokio::time::timeout(secs(600), guard.lost().cancelled());
    lost.await.expect("it is lost some time");
    begun.elapsed()
}
