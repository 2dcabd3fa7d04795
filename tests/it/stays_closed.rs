//! Locks that stay closed: those that are held for a time at least, also after a release, and those
//! with a delay after a loss that was no release.

use std::ops::Range;

use lockkeeper_api::pb::OnDisconnect;

use crate::support::prelude::*;

/// The modes that can be had so.
const MODES: [LockMode; 2] = [LockMode::Exclusive, LockMode::Fair];

/// An acquire that holds a lock for 60 s at least.
fn for_a_minute(name: &str, mode: LockMode) -> pb::AcquireRequest {
    acquire_request(name, "")
        .in_mode(mode)
        .hold_at_least(secs(60))
}

/// An acquire with the session's lease of 30 s and a delay of 60 s.
fn delayed(name: &str, mode: LockMode) -> pb::AcquireRequest {
    acquire_request(name, "").in_mode(mode).lock_delay(secs(60))
}

async fn holder(world: &World, request: pb::AcquireRequest) -> Session {
    let mut session = world.client(0).await.open().await;
    session.granted(request).await;
    session
}

/// A session on another coordinator waits for the lock, for so many seconds.
async fn expect_waited(world: &World, mode: LockMode, expected: Range<u64>) {
    let begun = Instant::now();
    let mut other = world.client(1).await.open().await;
    other.granted(acquire_request("a", "").in_mode(mode)).await;
    let waited = begun.elapsed();
    let is_expected = waited >= secs(expected.start) && waited < secs(expected.end);
    assert!(is_expected, "{mode:?}: {waited:?}, not {expected:?}");
}

async fn expect_refused(session: &mut Session, request: pb::AcquireRequest, expected: &str) {
    let op_id = session.send(Request::Acquire(request.clone()));
    assert_eq!(session.expect_failed(op_id).await, expected, "{request:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_before_the_time_leaves_it_held_until_then() {
    for mode in MODES {
        let world = World::of(2);
        let mut session = holder(&world, for_a_minute("a", mode)).await;
        tokio::time::sleep(secs(10)).await;
        assert!(session.release("a").await.released);
        expect_waited(&world, mode, 49..52).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_it_when_the_time_is_over() {
    for mode in MODES {
        let world = World::of(2);
        let mut session = holder(&world, for_a_minute("a", mode)).await;
        let mut other = world.client(0).await.open().await;
        let (op_id, _) = other.wait_in("a", mode).await;
        let begun = Instant::now();
        assert!(session.release("a").await.released);
        other.expect_granted(op_id).await;
        let after = begun.elapsed();
        assert!(after >= secs(59) && after < secs(62), "{mode:?}: {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn neither_a_crash_nor_the_end_of_the_session_ends_it() {
    let request = for_a_minute("a", LockMode::Exclusive);
    let (world, mut client, _) = World::two_with_clients().await;
    let mut session = client.open().await;
    session.granted(request.clone()).await;
    client.cut();
    // Without it, the lease of 30 s would end first.
    expect_waited(&world, LockMode::Exclusive, 59..62).await;
    let world = World::of(2);
    holder(&world, request).await.close().await.unwrap();
    expect_waited(&world, LockMode::Exclusive, 58..62).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_works_for_longer_keeps_it_and_its_release_frees_it_at_once() {
    let world = World::of(2);
    let mut session = holder(&world, for_a_minute("a", LockMode::Exclusive)).await;
    tokio::time::sleep(secs(100)).await;
    assert!(!world.client(1).await.gets_for("a", "x", secs(1)).await);
    assert!(session.release("a").await.released);
    expect_waited(&world, LockMode::Exclusive, 0..1).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_does_not_leave_it_held() {
    let world = World::of(2);
    let mut first = holder(&world, acquire_request("a", "")).await;
    let mut client = world.client(0).await;
    let waiting = client.waits(for_a_minute("a", LockMode::Exclusive)).await;
    drop(waiting);
    first.release("a").await;
    expect_waited(&world, LockMode::Exclusive, 0..1).await;
}

#[tokio::test(start_paused = true)]
async fn it_is_held_for_that_time_without_a_session_too() {
    let (world, mut client, mut other) = World::two_with_clients().await;
    let request = try_request("a", "ci").hold_at_least(secs(60));
    let grant = client.take(request).await;
    assert_eq!(grant.lease, Some(proto(secs(60))), "a crash is no shorter");
    // Another coordinator does not know of it.
    other.release("a", "ci").await.unwrap();
    assert_eq!(client.holders("a").await, ["ci"]);
    expect_waited(&world, LockMode::Exclusive, 58..62).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_nobody_gets_it_for_the_lease_and_the_delay() {
    for mode in MODES {
        let (world, mut client, _) = World::two_with_clients().await;
        let mut session = client.open().await;
        let grant = session.granted(delayed("a", mode)).await;
        assert_eq!(grant.lease, Some(proto(secs(30))));
        let valid_for = std_duration(grant.valid_for);
        assert!(valid_for < secs(30), "the delay is not valid");
        let seen = client.describe("a").await;
        let left = seen.holders[0].remaining_lease;
        assert!(std_duration(left) <= secs(30), "{left:?}");
        assert!(std_duration(seen.remaining_lease) > secs(89));
        client.cut();
        expect_waited(&world, mode, 88..92).await;
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_keep_the_delay_here_and_after_a_resume_elsewhere() {
    let (world, mut client, mut second) = World::two_with_clients().await;
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
    expect_waited(&world, LockMode::Exclusive, 78..92).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_and_a_closed_session_end_the_delay_at_once() {
    for mode in MODES {
        let world = World::of(2);
        let mut session = holder(&world, delayed("a", mode)).await;
        tokio::time::sleep(secs(50)).await;
        assert!(session.release("a").await.released);
        expect_waited(&world, mode, 0..1).await;
        let world = World::of(2);
        let session = holder(&world, delayed("a", mode)).await;
        session.close().await.unwrap();
        expect_waited(&world, mode, 0..6).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_crash_of_a_leader_nobody_leads_for_the_lease_and_the_delay() {
    for (resigns, expected) in [(false, 88..92), (true, 0..1)] {
        let (world, mut client, _) = World::two_with_clients().await;
        let mut session = client.open().await;
        let campaign = pb::CampaignRequest::named("a").lock_delay(secs(60));
        let op_id = session.send(Request::Campaign(campaign));
        assert!(matches!(session.end(op_id).await, Response::Elected(_)));
        if resigns {
            assert!(session.release("a").await.released);
        } else {
            client.cut();
        }
        expect_waited(&world, LockMode::Fair, expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_former_holder_waits_too_but_its_late_release_ends_the_delay() {
    let world = World::of(2);
    let request = delayed("a", LockMode::Exclusive).lasting(secs(10));
    let mut session = holder(&world, request).await;
    session.expect_lost().await;
    tokio::time::sleep(secs(1)).await;
    let tried = session.try_acquire(try_request("a", "")).await;
    let left = std_duration(tried.holder_remaining_lease);
    assert!(!tried.acquired && left > secs(50), "{left:?}");
    session.release("a").await;
    expect_waited(&world, LockMode::Exclusive, 0..1).await;
}

#[tokio::test(start_paused = true)]
async fn the_delay_follows_the_lease_without_a_session_too() {
    let (world, mut client, mut other) = World::two_with_clients().await;
    let request = try_request("a", "ci").lock_delay(secs(60));
    assert_eq!(client.take(request).await.lease, Some(proto(secs(30))));
    let renewed = other.renew("a", "ci", secs(40)).await.unwrap();
    assert_eq!(renewed.lease, Some(proto(secs(40))), "elsewhere");
    tokio::time::sleep(secs(50)).await;
    assert_eq!(refusal(other.renew("a", "ci", secs(40)).await), "NOT_OWNER");
    expect_waited(&world, LockMode::Exclusive, 48..52).await;
}

#[tokio::test(start_paused = true)]
async fn where_they_cannot_be_had_they_are_refused() {
    const LEAST: &str = "INVALID_HOLD_AT_LEAST";
    const DELAY: &str = "INVALID_LOCK_DELAY";
    let (_world, mut client, mut session) = World::with_session().await;
    for mode in [LockMode::Read, LockMode::Write] {
        expect_refused(&mut session, for_a_minute("a", mode), LEAST).await;
        expect_refused(&mut session, delayed("a", mode), DELAY).await;
    }
    let short = acquire_request("a", "").hold_at_least(millis(1));
    expect_refused(&mut session, short, LEAST).await;

    let releases = pb::OpenSession::default().upon_disconnect(OnDisconnect::Release);
    let mut session = client.open_with(releases).await.unwrap();
    expect_refused(&mut session, delayed("a", LockMode::Exclusive), DELAY).await;
    let campaign = pb::CampaignRequest::named("a").lock_delay(secs(60));
    let op_id = session.send(Request::Campaign(campaign));
    assert_eq!(session.expect_failed(op_id).await, DELAY);

    let quorum = World::over(1, 3);
    let mut session = quorum.client(0).await.open().await;
    for request in [for_a_minute, delayed] {
        let request = request("a", LockMode::Exclusive);
        expect_refused(&mut session, request, "UNSUPPORTED_BY_STORE").await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_sets_them() {
    let world = World::of(2);
    let session = world.network().client(&[0]).session().open().await.unwrap();
    let lock = session.lock("a").hold_at_least(secs(60));
    lock.acquire().await.unwrap().release().await.unwrap();
    expect_waited(&world, LockMode::Exclusive, 58..62).await;

    let world = World::of(2);
    let network = world.network();
    let session = network.client(&[0]).session().open().await.unwrap();
    let lock = session.lock("a").lock_delay(secs(60));
    let guard = lock.acquire().await.unwrap();
    network.set_down(0, true);
    expect_waited(&world, LockMode::Exclusive, 88..92).await;
    drop(guard);
}
