//! Locks that stay held for a time, also after a release.

use std::time::Duration;

use lockkeeper_api::pb::{self, LockMode, session_request::Request, session_response::Response};
use lockkeeper_testkit::prelude::*;
use tokio::time::Instant;

use crate::support::{
    World,
    client::{Session, acquire_request, proto, try_request},
    reason, secs,
};

/// An acquire that holds a lock for 60 s at least.
fn for_a_minute(name: &str, mode: LockMode) -> pb::AcquireRequest {
    pb::AcquireRequest {
        hold_at_least: Some(proto(secs(60))),
        ..acquire_request(name, "").in_mode(mode)
    }
}

/// A session on another coordinator waits for the lock; returns when it has it.
async fn waited(world: &World, mode: LockMode) -> Duration {
    let begun = Instant::now();
    let mut other = world.client(1).await.open().await;
    other.granted(acquire_request("a", "").in_mode(mode)).await;
    begun.elapsed()
}

async fn holder(world: &World, mode: LockMode) -> Session {
    let mut session = world.client(0).await.open().await;
    session.granted(for_a_minute("a", mode)).await;
    session
}

#[tokio::test(start_paused = true)]
async fn a_release_before_the_time_leaves_it_held_until_then() {
    for mode in [LockMode::Exclusive, LockMode::Fair] {
        let world = World::of(2);
        let mut session = holder(&world, mode).await;
        tokio::time::sleep(secs(10)).await;
        assert!(session.release("a").await.released);
        let after = waited(&world, mode).await;
        assert!(after >= secs(49) && after < secs(52), "{mode:?}: {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_it_when_the_time_is_over() {
    for mode in [LockMode::Exclusive, LockMode::Fair] {
        let world = World::of(2);
        let mut session = holder(&world, mode).await;
        let mut other = world.client(0).await.open().await;
        let op_id = other.send(Request::Acquire(acquire_request("a", "").in_mode(mode)));
        assert!(matches!(other.answer(op_id).await, Response::Waiting(_)));
        let begun = Instant::now();
        assert!(session.release("a").await.released);
        other.expect_granted(op_id).await;
        let after = begun.elapsed();
        assert!(after >= secs(59) && after < secs(62), "{mode:?}: {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn neither_a_crash_nor_the_end_of_the_session_ends_it() {
    let world = World::of(2);
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    session
        .granted(for_a_minute("a", LockMode::Exclusive))
        .await;
    client.cut();
    // Without it, the lease of 30 s would end first.
    let after = waited(&world, LockMode::Exclusive).await;
    assert!(after >= secs(59) && after < secs(62), "{after:?}");
    let world = World::of(2);
    let session = holder(&world, LockMode::Exclusive).await;
    session.close().await.unwrap();
    let after = waited(&world, LockMode::Exclusive).await;
    assert!(after >= secs(58) && after < secs(62), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_works_for_longer_keeps_it_and_its_release_frees_it_at_once() {
    let world = World::of(2);
    let mut session = holder(&world, LockMode::Exclusive).await;
    tokio::time::sleep(secs(100)).await;
    let mut other = world.client(1).await;
    let tried = other.try_acquire("a", "x", secs(1)).await.unwrap();
    assert!(tried.grant.is_none());
    assert!(session.release("a").await.released);
    assert!(waited(&world, LockMode::Exclusive).await < secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_does_not_leave_it_held() {
    let world = World::of(2);
    let mut first = world.client(0).await.open().await;
    first.acquire("a").await;
    let mut client = world.client(0).await;
    let mut waiting = client
        .acquire(for_a_minute("a", LockMode::Exclusive))
        .await
        .unwrap();
    waiting.expect_waiting().await;
    drop(waiting);
    first.release("a").await;
    assert!(waited(&world, LockMode::Exclusive).await < secs(1));
}

#[tokio::test(start_paused = true)]
async fn without_a_session_too() {
    let world = World::of(2);
    let (mut client, mut other) = (world.client(0).await, world.client(1).await);
    let request = pb::TryAcquireRequest {
        hold_at_least: Some(proto(secs(60))),
        ..try_request("a", "ci")
    };
    let tried = client.api.try_acquire(request).await.unwrap().into_inner();
    let grant = tried.grant.unwrap();
    assert_eq!(grant.lease, Some(proto(secs(60))), "a crash is no shorter");
    // Another coordinator does not know of it.
    other.release("a", "ci").await.unwrap();
    let seen = client.describe("a").await;
    assert_eq!(
        (seen.holders.len(), seen.holders[0].owner.as_str()),
        (1, "ci")
    );
    let after = waited(&world, LockMode::Exclusive).await;
    assert!(after >= secs(58) && after < secs(62), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn where_it_cannot_be_had_it_is_refused() {
    let world = World::new();
    let mut session = world.client(0).await.open().await;
    for mode in [LockMode::Read, LockMode::Write] {
        let op = session.send(Request::Acquire(for_a_minute("a", mode)));
        assert_eq!(session.expect_failed(op).await, "INVALID_HOLD_AT_LEAST");
    }
    let short = pb::AcquireRequest {
        hold_at_least: Some(proto(Duration::from_millis(1))),
        ..acquire_request("a", "")
    };
    let op = session.send(Request::Acquire(short));
    assert_eq!(session.expect_failed(op).await, "INVALID_HOLD_AT_LEAST");
    let quorum = World::over(1, 3);
    let mut client = quorum.client(0).await;
    let request = pb::TryAcquireRequest {
        hold_at_least: Some(proto(secs(60))),
        ..try_request("a", "ci")
    };
    let refused = client.api.try_acquire(request).await.unwrap_err();
    assert_eq!(reason(&refused), "UNSUPPORTED_BY_STORE");
}

#[tokio::test(start_paused = true)]
async fn the_client_sets_it() {
    let world = World::of(2);
    let session = world.network().client(&[0]).session().open().await.unwrap();
    let guard = session
        .lock("a")
        .hold_at_least(secs(60))
        .acquire()
        .await
        .unwrap();
    guard.release().await.unwrap();
    let after = waited(&world, LockMode::Exclusive).await;
    assert!(after >= secs(58) && after < secs(62), "{after:?}");
}
