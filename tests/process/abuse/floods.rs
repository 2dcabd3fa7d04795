//! Frames without end: each costs the sender little, and must not cost the server much more.

use lockkeeper_testkit::frames::{
    DATA, END_HEADERS, ENHANCE_YOUR_CALM, Flood, HEADERS, PING, Raw, SETTINGS, call, frame, text,
};

use super::{MIB, Scene};
use crate::redis_server::eventually;

/// Frames of a flood; enough that a server which keeps a kilobyte for each would be found out.
const FRAMES: u32 = 100_000;

/// What buffers of one connection and the allocator's caches may take, in a build for debugging.
const GROWN_MAX: u64 = 16 * MIB;

/// The client's streams, in order.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

/// The connection is ended with this code.
async fn expect_goaway(raw: &Raw) {
    eventually("it is told to calm down", || async {
        raw.seen().goaway == Some(ENHANCE_YOUR_CALM) && raw.seen().is_closed
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_headers_that_stand_for_large_ones_are_refused() {
    let scene = Scene::begin().await;
    let mut raw = Raw::open(scene.coordinator.address()).await;
    // One entry of the dynamic table that takes it up, and then 16 thousand times the byte that
    // stands for it: 60 MiB a call.
    let mut bomb = call("TryAcquire");
    bomb.push(0x40);
    text(&mut bomb, "x-bomb");
    text(&mut bomb, &"x".repeat(3900));
    bomb.resize(16_000, 0xbe);
    let bombs = streams(200).map(|stream| frame(HEADERS, END_HEADERS, stream, &bomb));
    let flood = raw.flood(bombs).await;
    eventually("all of them are refused", || async {
        raw.seen().is_closed || raw.seen().resets.len() == 200
    })
    .await;
    assert_ne!(flood, Flood::Blocked);
    scene.end(GROWN_MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_data_frames_end_the_connection() {
    let scene = Scene::begin().await;
    let mut raw = Raw::open(scene.coordinator.address()).await;
    let first = frame(HEADERS, END_HEADERS, 1, &call("Session"));
    let empty = (0..FRAMES).map(|_| frame(DATA, 0, 1, &[]));
    let flood = raw.flood(std::iter::once(first).chain(empty)).await;
    assert_eq!(flood, Flood::Closed);
    expect_goaway(&raw).await;
    scene.end(GROWN_MAX).await;
}

/// Each wants an answer. Whoever reads none is not read from any more either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_and_settings_of_a_client_that_does_not_read_are_left_unread() {
    let scene = Scene::begin().await;
    let address = scene.coordinator.address();
    for asked in [frame(PING, 0, 0, b"whatever"), frame(SETTINGS, 0, 0, &[])] {
        let mut raw = Raw::open_with(address, &[], false).await;
        let floods = (0..20 * FRAMES).map(|_| asked.clone());
        assert_eq!(raw.flood(floods).await, Flood::Blocked);
    }
    scene.end(GROWN_MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pings_of_a_client_that_reads_cost_no_memory() {
    let scene = Scene::begin().await;
    let mut raw = Raw::open(scene.coordinator.address()).await;
    let pings = (0..FRAMES).map(|_| frame(PING, 0, 0, b"whatever"));
    assert_ne!(raw.flood(pings).await, Flood::Blocked);
    scene.end(GROWN_MAX).await;
}
