//! Bad days: the store stops answering and goes on later, with everything that was sent to it
//! meanwhile.

use tokio::time::sleep_until;

use crate::prelude::*;
use crate::steps::{LEASE, assert_told_in_time, freeze_between_renewals};

#[tokio::test]
async fn longer_than_the_lease_the_holder_is_told_in_time_and_the_waiter_is_next() {
    judged_by_time(async || {
        let (redis, coordinator, mut client) = one_coordinator().await;
        let mut holder = client.open().await;
        let held = holder.acquire("build").await;
        let waiter = timed_wait(&mut client, "build").await;

        let end = freeze_between_renewals(&redis, "build", LEASE).await;
        let asked = Instant::now();
        let unknown = client.try_acquire("other", "a", secs(1)).await.unwrap_err();
        since(asked).must_be_below(millis(900), "refused by a frozen store");
        assert_eq!(reason(&unknown), "OUTCOME_UNKNOWN");
        let (lost, risk) = lost_after_risk(&mut holder).await;
        assert_told_in_time(&coordinator, &end).await;
        assert_eq!(lost.reason(), LostReason::StoreUnreachable);
        assert_eq!(lost.grant.unwrap().fencing_token, held.fencing_token);
        assert!(risk.is_some_and(|risk| risk.valid_for.is_some()));

        sleep_until(end.at + millis(300)).await;
        assert!(!waiter.is_finished());
        redis.cont();
        let continued = Instant::now();
        let (granted_at, (granted, mut session)) = waiter.await.unwrap();
        measured("granted after the store went on", granted_at - continued);
        assert!(granted.fencing_token > held.fencing_token);
        // What was sent while it was frozen has run now, and has not brought the old grant back.
        let field = format!("{}:0", session.id());
        assert_eq!(redis.text(&["HLEN", "build"]).await, "1");
        assert_eq!(redis.text(&["HGET", "build", &field]).await, "1");
        let renew = holder.send(Request::Renew(pb::RenewRequest::named("build")));
        assert_eq!(holder.expect_failed(renew).await, "NOT_OWNER");
        assert!(session.release("build").await.released);
        session.close().await.unwrap();
        holder.close().await.unwrap();
        expect_no_trace(&redis).await;
        expect_serving(&coordinator).await;
    })
    .await;
}

#[tokio::test]
async fn shorter_than_the_lease_everything_goes_on() {
    const LONG: Duration = secs(3);
    let (redis, coordinator, mut client) = one_coordinator().await;
    let mut holder = open_with_lease(&mut client, LONG).await;
    let held = holder.acquire("build").await;
    let waiter = timed_wait(&mut client, "build").await;

    let end = freeze_between_renewals(&redis, "build", LONG).await;
    // A renewal has been due for long enough to have failed.
    sleep_until(end.at - LONG / 2).await;
    redis.cont();
    let Response::AtRisk(_) = holder.notice().await else {
        panic!("not at risk");
    };
    let Response::Recovered(_) = holder.notice().await else {
        panic!("not recovered");
    };
    sleep_until(end.at + millis(500)).await;
    assert!(!waiter.is_finished());
    assert!(redis.lease_left("build").await.is_some());
    let notice = timeout(millis(1), holder.notice()).await;
    assert!(notice.is_err(), "{notice:?}");
    let again = holder.acquire("build").await;
    assert_eq!(
        (again.hold_count, again.fencing_token),
        (2, held.fencing_token)
    );
    holder.release("build").await;
    assert!(holder.release("build").await.released);
    let (_, (granted, session)) = waiter.await.unwrap();
    assert!(granted.fencing_token > held.fencing_token);
    session.close().await.unwrap();
    expect_serving(&coordinator).await;
}

#[tokio::test]
async fn a_release_that_nobody_answered_is_done_when_the_store_goes_on() {
    let (redis, coordinator, mut client) = one_coordinator().await;
    let mut holder = client.open().await;
    holder.acquire("build").await;
    let waiter = timed_wait(&mut client, "build").await;
    redis.stop();
    let op_id = holder.send_release("build", "");
    assert_eq!(holder.expect_failed(op_id).await, "OUTCOME_UNKNOWN");
    redis.cont();
    let (_, (granted, session)) = waiter.await.unwrap();
    assert_eq!(granted.hold_count, 1);
    session.close().await.unwrap();
    expect_no_trace(&redis).await;
    expect_serving(&coordinator).await;
}

#[tokio::test]
async fn an_acquire_that_nobody_answered_is_undone() {
    let (redis, coordinator, mut client) = one_coordinator().await;
    let mut session = client.open().await;
    redis.stop();
    let op_id = session.send_acquire("build", "");
    assert_eq!(session.expect_failed(op_id).await, "OUTCOME_UNKNOWN");
    let lease = secs(60);
    let unknown = client.try_acquire("other", "a", lease).await.unwrap_err();
    assert_eq!(reason(&unknown), "OUTCOME_UNKNOWN");
    redis.cont();
    // Well before the leases that these would have.
    expect_no_trace(&redis).await;
    assert_eq!(session.acquire("build").await.hold_count, 1);
    session.close().await.unwrap();
    expect_serving(&coordinator).await;
}
