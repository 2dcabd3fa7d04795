//! Releases by force, and what holders are told.

use std::collections::BTreeSet;

use super::{admin, force};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn a_release_by_force_tells_the_session_here_at_once_and_lets_the_next_in() {
    let world = World::new();
    let (mut client, mut other) = (world.client(0).await, world.client(0).await);
    let (mut session, mut waiting) = (client.open().await, other.open().await);
    let grant = session.acquire("a").await;
    session.acquire("a").await;
    let op_id = waiting.waits_for("a", "").await;
    let begun = tokio::time::Instant::now();
    let released = force(&mut admin(&other), "a", "it hangs").await.unwrap();
    assert!(released.released);
    assert_eq!(
        (released.holder_count, released.holders[0].hold_count),
        (1, 2)
    );
    let lost = session.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::ForceReleased);
    assert_eq!(lost.detail, "it hangs");
    assert_eq!(lost.grant.unwrap().fencing_token, grant.fencing_token);
    let next = waiting.expect_granted(op_id).await;
    assert!(next.fencing_token > grant.fencing_token);
    assert!(begun.elapsed() < secs(1), "nobody had to look");
}

#[tokio::test(start_paused = true)]
async fn the_old_token_is_outdated_before_anybody_else_has_the_lock() {
    let (_world, mut client) = World::with_client().await;
    let grant = client.try_acquire("a", "x", secs(30)).await.unwrap().grant;
    let token = grant.unwrap().fencing_token;
    force(&mut admin(&client), "a", "why").await.unwrap();
    let checked = client.check_token("a", token).await;
    assert!(!checked.current && !checked.held);
    assert_eq!(refusal(client.release("a", "x").await), "NOT_OWNER");
}

#[tokio::test(start_paused = true)]
async fn a_session_of_another_coordinator_is_told_why_at_its_next_look() {
    for stores in [1, 3] {
        let world = World::over(2, stores);
        let (mut client, other) = (world.client(0).await, world.client(1).await);
        let mut session = client.open().await;
        session.acquire("a").await;
        let read = acquire_request("b", "").in_mode(LockMode::Read);
        session.granted(read).await;
        let begun = tokio::time::Instant::now();
        for name in ["a", "b"] {
            assert!(
                force(&mut admin(&other), name, "it hangs")
                    .await
                    .unwrap()
                    .released
            );
        }
        let mut names = BTreeSet::new();
        for _ in 0..2 {
            let lost = session.expect_lost().await;
            assert_eq!(lost.reason(), LostReason::ForceReleased, "{stores} stores");
            assert_eq!(lost.detail, "it hangs");
            names.insert(lost.grant.unwrap().name);
        }
        assert_eq!(names.len(), 2);
        assert!(begun.elapsed() <= secs(11), "a third of the lease");
    }
}

#[tokio::test(start_paused = true)]
async fn who_finds_out_by_releasing_is_told_why_too() {
    let (_world, mut client, other) = World::two_with_clients().await;
    let mut session = client.open().await;
    session.acquire("a").await;
    force(&mut admin(&other), "a", "it hangs").await.unwrap();
    let op_id = session.send_release("a", "");
    let (mut lost, mut failed) = (false, false);
    while !lost || !failed {
        match session.next().await.unwrap().unwrap().response.unwrap() {
            Response::Lost(told) => lost = told.reason() == LostReason::ForceReleased,
            Response::Failed(_) => failed = true,
            other => panic!("{op_id}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_loss_is_not_told_as_one_by_force() {
    let (world, mut client, other) = World::two_with_clients().await;
    let mut session = client.open().await;
    session.acquire("a").await;
    force(&mut admin(&other), "a", "it hangs").await.unwrap();
    assert_eq!(
        session.expect_lost().await.reason(),
        LostReason::ForceReleased
    );
    session.acquire("a").await;
    world.redis(&["DEL", "a"]);
    let lost = session.expect_lost().await;
    assert_eq!(
        (lost.reason(), lost.detail.as_str()),
        (LostReason::Expired, "")
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_no_lock_or_has_no_reason_is_refused() {
    let (world, client) = World::with_client().await;
    let mut admin = admin(&client);
    world.redis(&["SET", "a", "1"]);
    assert_eq!(refusal(force(&mut admin, "a", "why").await), "WRONG_KIND");
    for bad in ["", "a\nb"] {
        assert_eq!(refusal(force(&mut admin, "a", bad).await), "INVALID_REASON");
    }
    assert_eq!(refusal(force(&mut admin, "", "why").await), "INVALID_NAME");
    let free = force(&mut admin, "b", "why").await.unwrap();
    assert!(!free.released && free.holders.is_empty());
}
