//! Bad days: the store loses what it knew, by a crash or by somebody's command.

use tonic::Status;
use tonic_types::StatusExt as _;

use crate::prelude::*;
use crate::steps::{HAND_OVER_MAX, LEASE, assert_told_in_time, freeze_between_renewals};

/// How soon a store that is gone must be told as such.
const REFUSED_WITHIN: Duration = millis(600);

/// A try without a store, which must fail quickly and say when to come back.
async fn refused(client: &mut Client) -> Status {
    let asked = Instant::now();
    let refused = client.try_acquire("other", "a", LEASE).await.unwrap_err();
    since(asked).must_be_below(REFUSED_WITHIN, "refused without a store");
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    assert!(
        refused.get_error_details().retry_info().is_some(),
        "{refused:?}"
    );
    refused
}

#[tokio::test]
async fn a_store_that_comes_back_empty() {
    judged_by_time(async || {
        let (mut redis, coordinator, mut client) = one_coordinator().await;
        let mut holder = client.open().await;
        let held = holder.acquire("build").await;
        let unwanted = holder.acquire("unwanted").await;
        let waiter = timed_wait(&mut client, "build").await;

        freeze_between_renewals(&redis, "build", LEASE).await;
        redis.kill();
        eventually("the store is missed", || async {
            let mut client = client.clone();
            reason(&refused(&mut client).await) == "STORE_UNAVAILABLE"
        })
        .await;
        for _ in 0..10 {
            refused(&mut client).await;
        }
        assert!(!waiter.is_finished());

        redis.restart_on_same_port().await;
        let back = Instant::now();
        for _ in 0..2 {
            let (lost, _) = lost_after_risk(&mut holder).await;
            let (reason, grant) = (lost.reason(), lost.grant.unwrap());
            let token = grant.fencing_token;
            if grant.name == "unwanted" {
                assert_eq!(
                    (reason, token),
                    (LostReason::Expired, unwanted.fencing_token)
                );
            } else {
                // The waiter may have been quicker.
                assert!(matches!(
                    reason,
                    LostReason::Expired | LostReason::TakenOver
                ));
                assert_eq!(token, held.fencing_token);
            }
        }
        measured(
            "a holder is told that the store forgot its locks",
            back.elapsed(),
        );
        let (granted_at, (granted, session)) = waiter.await.unwrap();
        let after = granted_at.saturating_duration_since(back);
        measured("a waiter is granted after the store came back", after);
        assert!(
            granted.fencing_token > held.fencing_token,
            "also without the counter"
        );
        session.close().await.unwrap();
        expect_no_trace(&redis).await;
        expect_serving(&coordinator).await;
    })
    .await;
}

#[tokio::test]
async fn a_store_that_is_away_for_longer_than_the_lease() {
    judged_by_time(async || {
        let (mut redis, coordinator, mut client) = one_coordinator().await;
        let mut holder = client.open().await;
        let held = holder.acquire("build").await;
        let waiter = timed_wait(&mut client, "build").await;

        let end = freeze_between_renewals(&redis, "build", LEASE).await;
        redis.kill();
        let (lost, risk) = lost_after_risk(&mut holder).await;
        let lost_at = Instant::now();
        assert_told_in_time(&coordinator, &end).await;
        assert_eq!(lost.reason(), LostReason::StoreUnreachable);
        assert!(risk.is_some_and(|risk| risk.valid_for.is_some()));
        refused(&mut client).await;
        assert!(!waiter.is_finished());

        redis.restart_on_same_port().await;
        let (granted_at, (granted, session)) = waiter.await.unwrap();
        assert!(granted_at > lost_at);
        assert!(granted.fencing_token > held.fencing_token);
        session.close().await.unwrap();
        expect_serving(&coordinator).await;
    })
    .await;
}

#[tokio::test]
async fn a_store_that_is_flushed() {
    judged_by_time(async || {
        let (redis, coordinator, mut client) = one_coordinator().await;
        let mut holder = client.open().await;
        let held = holder.acquire("build").await;
        let waiter = timed_wait(&mut client, "build").await;

        redis.command(&["FLUSHALL"]).await;
        let flushed = Instant::now();
        let (lost, risk) = lost_after_risk(&mut holder).await;
        since(flushed).must_be_below(LEASE / 3 + HAND_OVER_MAX, "a holder is told of a flush");
        let reason = lost.reason();
        assert!(
            matches!(reason, LostReason::Expired | LostReason::TakenOver),
            "{reason:?}"
        );
        assert!(risk.is_none());
        let (granted_at, (granted, session)) = waiter.await.unwrap();
        between(flushed, granted_at).must_be_below(
            millis(1200) + HAND_OVER_MAX,
            "the next is granted after a flush",
        );
        assert!(granted.fencing_token > held.fencing_token);
        session.close().await.unwrap();
        expect_serving(&coordinator).await;
    })
    .await;
}

#[tokio::test]
async fn a_store_that_forgets_the_scripts_is_not_noticed() {
    let (redis, coordinator, mut client) = one_coordinator().await;
    let mut holder = client.open().await;
    holder.acquire("kept").await;
    let mut session = client.open().await;
    let begun = Instant::now();
    while begun.elapsed() < LEASE * 3 / 2 {
        redis.command(&["SCRIPT", "FLUSH"]).await;
        session.acquire("build").await;
        let waiter = timed_wait(&mut client, "build").await;
        redis.command(&["SCRIPT", "FLUSH"]).await;
        assert!(session.release("build").await.released);
        redis.command(&["SCRIPT", "FLUSH"]).await;
        let (_, (_, next)) = waiter.await.unwrap();
        next.close().await.unwrap();
    }
    assert!(redis.lease_left("kept").await.is_some());
    let notice = timeout(millis(1), holder.notice()).await;
    assert!(notice.is_err(), "{notice:?}");
    assert!(holder.release("kept").await.released);
    expect_serving(&coordinator).await;
}

#[tokio::test]
async fn connections_that_are_killed_again_and_again() {
    let (redis, coordinator, mut client) = one_coordinator().await;
    let mut holder = open_with_lease(&mut client, secs(3)).await;
    let held = holder.acquire("build").await;
    let waiter = timed_wait(&mut client, "build").await;
    let begun = Instant::now();
    while begun.elapsed() < secs(4) {
        for kind in ["normal", "pubsub"] {
            redis
                .command(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"])
                .await;
        }
        tokio::time::sleep(millis(200)).await;
    }
    assert!(!waiter.is_finished());
    // A renewal may have been under way when its connection was killed; that was a risk, and no
    // loss.
    assert!(redis.lease_left("build").await.is_some());
    assert!(holder.release("build").await.released);
    let (_, (granted, session)) = waiter.await.unwrap();
    assert!(granted.fencing_token > held.fencing_token);
    assert_eq!(granted.hold_count, 1);
    session.close().await.unwrap();
    expect_no_trace(&redis).await;
    expect_serving(&coordinator).await;
}
