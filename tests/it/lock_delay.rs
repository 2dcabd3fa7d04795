//! Locks that stay closed for a time after a loss that was no release.

use std::time::Duration;

use lockkeeper_api::pb::{
    self, LockMode, OnDisconnect, session_request::Request, session_response::Response,
};
use lockkeeper_testkit::prelude::*;
use tokio::time::Instant;

use crate::support::{
    World,
    client::{Session, acquire_request, proto, std_duration, try_request},
    reason, secs,
};

/// An acquire with the session's lease of 30 s and a delay of 60 s.
fn delayed(name: &str, mode: LockMode) -> pb::AcquireRequest {
    pb::AcquireRequest {
        lock_delay: Some(proto(secs(60))),
        ..acquire_request(name, "").in_mode(mode)
    }
}

/// How long a session on another coordinator waits for the lock.
async fn waited(world: &World, mode: LockMode) -> Duration {
    let begun = Instant::now();
    let mut other = world.client(1).await.open().await;
    other.granted(acquire_request("a", "").in_mode(mode)).await;
    begun.elapsed()
}

async fn holder(world: &World, mode: LockMode) -> Session {
    let mut session = world.client(0).await.open().await;
    session.granted(delayed("a", mode)).await;
    session
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_nobody_gets_it_for_the_lease_and_the_delay() {
    for mode in [LockMode::Exclusive, LockMode::Fair] {
        let world = World::of(2);
        let mut client = world.client(0).await;
        let mut session = client.open().await;
        let grant = session.granted(delayed("a", mode)).await;
        assert_eq!(grant.lease, Some(proto(secs(30))));
        assert!(
            std_duration(grant.valid_for) < secs(30),
            "the delay is not valid"
        );
        let seen = client.describe("a").await;
        let left = seen.holders[0].remaining_lease;
        assert!(std_duration(left) <= secs(30), "{left:?}");
        assert!(std_duration(seen.remaining_lease) > secs(89));
        client.cut();
        let after = waited(&world, mode).await;
        assert!(after >= secs(88) && after < secs(92), "{mode:?}: {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_keep_it_here_and_after_a_resume_elsewhere() {
    let world = World::of(2);
    let (mut client, mut second) = (world.client(0).await, world.client(1).await);
    let mut session = client.open().await;
    let grant = session.granted(delayed("a", LockMode::Exclusive)).await;
    tokio::time::sleep(secs(100)).await;
    client.cut();
    let resumed = second.resume(&session.opened, vec![grant]).await.unwrap();
    let lease = std_duration(resumed.opened.grants[0].valid_for);
    assert!(lease > secs(25) && lease < secs(30), "{lease:?}");
    tokio::time::sleep(secs(100)).await;
    second.cut();
    // The last renewal was up to 10 s ago.
    let after = waited(&world, LockMode::Exclusive).await;
    assert!(after >= secs(78) && after < secs(92), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_and_a_closed_session_free_it_at_once() {
    for mode in [LockMode::Exclusive, LockMode::Fair] {
        let world = World::of(2);
        let mut session = holder(&world, mode).await;
        tokio::time::sleep(secs(50)).await;
        assert!(session.release("a").await.released);
        assert!(waited(&world, mode).await < secs(1), "{mode:?}");
        let world = World::of(2);
        holder(&world, mode).await.close().await.unwrap();
        assert!(waited(&world, mode).await < secs(6), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_crash_of_a_leader_nobody_leads_for_the_lease_and_the_delay() {
    let campaign = pb::CampaignRequest {
        name: "a".to_owned(),
        lock_delay: Some(proto(secs(60))),
        ..pb::CampaignRequest::default()
    };
    for resigns in [false, true] {
        let world = World::of(2);
        let mut client = world.client(0).await;
        let mut session = client.open().await;
        let op = session.send(Request::Campaign(campaign.clone()));
        assert!(matches!(session.end(op).await, Response::Elected(_)));
        if resigns {
            assert!(session.release("a").await.released);
        } else {
            client.cut();
        }
        let after = waited(&world, LockMode::Fair).await;
        let (least, most) = if resigns { (0, 1) } else { (88, 92) };
        assert!(after >= secs(least) && after < secs(most), "{after:?}");
    }
    let releases = pb::OpenSession {
        on_disconnect: OnDisconnect::Release.into(),
        ..pb::OpenSession::default()
    };
    let world = World::new();
    let mut client = world.client(0).await;
    let mut session = client.open_with(releases).await.unwrap();
    let op = session.send(Request::Campaign(campaign));
    assert_eq!(session.expect_failed(op).await, "INVALID_LOCK_DELAY");
}

#[tokio::test(start_paused = true)]
async fn the_former_holder_waits_too_but_its_late_release_ends_the_delay() {
    let world = World::of(2);
    let mut session = world.client(0).await.open().await;
    let request = pb::AcquireRequest {
        lease: Some(proto(secs(10))),
        ..delayed("a", LockMode::Exclusive)
    };
    session.granted(request).await;
    session.expect_lost().await;
    tokio::time::sleep(secs(1)).await;
    let tried = session.try_acquire(try_request("a", "")).await;
    let left = std_duration(tried.holder_remaining_lease);
    assert!(!tried.acquired && left > secs(50), "{left:?}");
    session.release("a").await;
    assert!(waited(&world, LockMode::Exclusive).await < secs(1));
}

#[tokio::test(start_paused = true)]
async fn without_a_session_too() {
    let world = World::of(2);
    let (mut client, mut other) = (world.client(0).await, world.client(1).await);
    let request = pb::TryAcquireRequest {
        lock_delay: Some(proto(secs(60))),
        ..try_request("a", "ci")
    };
    let tried = client.api.try_acquire(request).await.unwrap().into_inner();
    assert_eq!(tried.grant.unwrap().lease, Some(proto(secs(30))));
    let renewed = other.renew("a", "ci", secs(40)).await.unwrap();
    assert_eq!(renewed.lease, Some(proto(secs(40))), "elsewhere");
    tokio::time::sleep(secs(50)).await;
    let refused = other.renew("a", "ci", secs(40)).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_OWNER");
    let after = waited(&world, LockMode::Exclusive).await;
    assert!(after >= secs(48) && after < secs(52), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn where_it_cannot_be_had_it_is_refused() {
    let world = World::new();
    let mut session = world.client(0).await.open().await;
    for mode in [LockMode::Read, LockMode::Write] {
        let op = session.send(Request::Acquire(delayed("a", mode)));
        assert_eq!(session.expect_failed(op).await, "INVALID_LOCK_DELAY");
    }
    let mut client = world.client(0).await;
    let releases = pb::OpenSession {
        on_disconnect: OnDisconnect::Release.into(),
        ..pb::OpenSession::default()
    };
    let mut session = client.open_with(releases).await.unwrap();
    let op = session.send(Request::Acquire(delayed("a", LockMode::Exclusive)));
    assert_eq!(session.expect_failed(op).await, "INVALID_LOCK_DELAY");
    let quorum = World::over(1, 3);
    let mut session = quorum.client(0).await.open().await;
    let op = session.send(Request::Acquire(delayed("a", LockMode::Exclusive)));
    assert_eq!(session.expect_failed(op).await, "UNSUPPORTED_BY_STORE");
}

#[tokio::test(start_paused = true)]
async fn the_client_sets_it() {
    let world = World::of(2);
    let network = world.network();
    let session = network.client(&[0]).session().open().await.unwrap();
    let lock = session.lock("a").lock_delay(secs(60));
    let guard = lock.acquire().await.unwrap();
    network.set_down(0, true);
    network.cut(0);
    let after = waited(&world, LockMode::Exclusive).await;
    assert!(after >= secs(88) && after < secs(92), "{after:?}");
    drop(guard);
}
