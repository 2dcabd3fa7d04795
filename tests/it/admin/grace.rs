//! Releases by force that wait for the holders to stop.

use lockkeeper_testkit::several::specs;

use super::{admin, force, force_within};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn nobody_else_is_granted_the_lock_before_its_holder_has_released_the_lost_grant() {
    for stores in [1, 3] {
        let world = World::over(1, stores);
        let (mut client, mut other) = (world.client(0).await, world.client(0).await);
        let (mut session, mut waiting) = (client.open().await, other.open().await);
        let grant = session.acquire("a").await;
        let op_id = waiting.waits_for("a", "").await;
        let released = force_within(&mut admin(&other), "a", "it hangs", secs(20)).await;
        let released = released.unwrap();
        assert!(released.released);
        assert_eq!(std_duration(released.closed_for), secs(20));
        let begun = Instant::now();
        let lost = session.expect_lost().await;
        assert_eq!(lost.reason(), LostReason::ForceReleased);
        assert!(std_duration(lost.valid_for) > secs(19), "{lost:?}");
        let checked = client.check_token("a", grant.fencing_token).await;
        assert!(!checked.current, "its token is outdated at once");
        let holders = client.describe("a").await.holders;
        assert_eq!(
            holders.len(),
            1,
            "the holder is shown as long as it is waited for"
        );
        tokio::time::sleep(secs(10)).await;
        assert!(!client.gets_for("a", "other", secs(30)).await);
        let op = session.send_release("a", "");
        assert_eq!(session.expect_failed(op).await, "NOT_OWNER");
        let next = waiting.expect_granted(op_id).await;
        assert!(begun.elapsed() < secs(12), "{stores} stores");
        assert!(next.fencing_token > grant.fencing_token);
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_does_not_answer_is_waited_for_only_so_long() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let (mut session, mut waiting) = (client.open().await, other.open().await);
    session.acquire("a").await;
    let op_id = waiting.waits_for("a", "").await;
    let begun = Instant::now();
    let mut admin = admin(&other);
    force_within(&mut admin, "a", "it hangs", secs(15))
        .await
        .unwrap();
    waiting.expect_granted(op_id).await;
    let after = begun.elapsed();
    assert!(after >= secs(15) && after < secs(17), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_of_another_coordinator_learns_how_long_it_has() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let (mut session, mut waiting) = (client.open().await, other.open().await);
    session.acquire("a").await;
    let write = acquire_request("b", "").in_mode(LockMode::Write);
    session.granted(write).await;
    for name in ["a", "b"] {
        let mut admin = admin(&other);
        force_within(&mut admin, name, "it hangs", secs(20))
            .await
            .unwrap();
    }
    for _ in 0..2 {
        let lost = session.expect_lost().await;
        assert_eq!(lost.reason(), LostReason::ForceReleased);
        let left = std_duration(lost.valid_for);
        assert!(left > secs(19) && left <= secs(20), "at once: {left:?}");
    }
    let begun = Instant::now();
    let op_id = waiting.waits_for("a", "").await;
    session.send_release("a", "");
    waiting.expect_granted(op_id).await;
    let read = acquire_request("b", "").in_mode(LockMode::Read);
    let release = pb::ReleaseRequest::named("b").in_mode(LockMode::Write);
    session.send(Request::Release(release));
    waiting.granted(read).await;
    assert!(begun.elapsed() < secs(1), "the release opened them");
}

#[tokio::test(start_paused = true)]
async fn a_holder_without_a_session_is_not_waited_for() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(30)).await.unwrap();
    let mut admin = admin(&client);
    let released = force_within(&mut admin, "a", "why", secs(20)).await;
    assert_eq!(released.unwrap().closed_for, None);
    assert!(client.gets_for("a", "y", secs(30)).await);
}

#[tokio::test(start_paused = true)]
async fn a_second_release_by_force_opens_the_lock_at_once() {
    let (_world, mut client, mut session) = World::with_session().await;
    session.acquire("a").await;
    let mut admin = admin(&client);
    force_within(&mut admin, "a", "why", secs(20))
        .await
        .unwrap();
    assert!(force(&mut admin, "a", "now").await.unwrap().released);
    assert!(client.gets_for("a", "y", secs(30)).await);
}

#[tokio::test(start_paused = true)]
async fn several_locks_are_acknowledged_together() {
    let (_world, mut client, mut session) = World::with_session().await;
    session.acquire("a").await;
    session.acquire("b").await;
    let mut admin = admin(&client);
    force_within(&mut admin, "b", "why", secs(20))
        .await
        .unwrap();
    session.expect_lost().await;
    session.release_all(&specs(&["a", "b"])).await;
    assert!(client.gets_for("b", "y", secs(30)).await);
}

#[tokio::test(start_paused = true)]
async fn a_period_that_is_no_lease_is_refused() {
    let (_world, client) = World::with_client().await;
    let refused = force_within(&mut admin(&client), "a", "why", secs(100_000)).await;
    assert_eq!(refusal(refused), "INVALID_GRACE_PERIOD");
}
