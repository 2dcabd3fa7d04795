//! What outlives a call, a connection, or a coordinator.

use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::world::{LEASE, World};
use crate::prelude::*;
use crate::steps::{sessionless_wait, wait_for};

pub(super) async fn a_repeat_with_the_same_request_id_changes_nothing_wherever_it_is_sent(
    world: World,
) {
    const NAME: &str = "repeated";
    let mut clients = [world.client(0).await, world.client(1).await];
    let take = try_request(NAME, "").with_id("take");
    let mut grants = Vec::new();
    for client in &mut clients {
        let tried = client.api.try_acquire(take.clone()).await.unwrap();
        grants.push(tried.into_inner().grant.expect("it is had"));
    }
    let identity = |grant: &pb::Grant| (grant.owner.clone(), grant.fencing_token);
    assert_eq!(identity(&grants[0]), identity(&grants[1]));
    assert_eq!((grants[0].hold_count, grants[1].hold_count), (1, 1));
    let give = pb::ReleaseRequest::named(NAME)
        .by(grants[0].owner.clone())
        .with_id("give");
    for client in &mut clients {
        let given = client.release_with(give.clone()).await.unwrap();
        assert_eq!((given.released, given.hold_count), (true, 0));
    }
    // It was had, and it was given back: the repeat neither takes it again nor says that it is had.
    let again = take.by(grants[0].owner.clone());
    assert_eq!(refusal(clients[1].try_with(again).await), "NOT_OWNER");
    assert!(clients[0].holders(NAME).await.is_empty());
}

pub(super) async fn a_coordinator_that_drains_hands_its_sessions_on_and_keeps_their_locks(
    world: World,
) {
    const NAME: &str = "drained";
    let stopping = world.another_coordinator().await;
    let mut at_it = stopping.client().await;
    let mut holder = at_it.open().await;
    let held = holder.acquire(NAME).await;
    let mut waiting = at_it.waits(acquire_request(NAME, "w")).await;
    let (mut in_session, op_id) = wait_for(&mut at_it, NAME).await;
    let mut health = HealthClient::new(at_it.channel());
    let health = health.watch(HealthCheckRequest::default()).await.unwrap();
    let mut health = health.into_inner();
    let mut healthy = async || health.message().await.unwrap().unwrap().status();
    assert_eq!(healthy().await, ServingStatus::Serving);
    let asked = Instant::now();
    stopping.signal(Signal::SIGTERM);
    let ended = waiting.end().await.unwrap_err();
    assert_eq!(reason(&ended), "DRAINING");
    assert_eq!(in_session.expect_failed(op_id).await, "DRAINING");
    assert_eq!(healthy().await, ServingStatus::NotServing);
    assert!(matches!(holder.notice().await, Response::GoingAway(_)));
    assert_eq!(refusal(holder.read_to_end().await), "DRAINING");
    assert_eq!(stopping.exit().await.code(), Some(0));
    assert!(asked.elapsed() < secs(8), "less than the time of grace");
    if !world.kind().is_shared() {
        // What was kept in it ended with it.
        return;
    }
    let mut elsewhere = world.client(0).await;
    let left = std_duration(elsewhere.describe(NAME).await.remaining_lease);
    assert!(left > secs(25), "with a whole lease: {left:?}");
    let waiter = timed_wait(&mut elsewhere, NAME).await;
    let grants = vec![held.clone()];
    let mut resumed = elsewhere.resume(&holder.opened, grants).await.unwrap();
    let kept = &resumed.opened.grants;
    assert_eq!(kept[0].fencing_token, held.fencing_token);
    assert!(resumed.release(NAME).await.released);
    let (_, (granted, session)) = waiter.await.unwrap();
    assert!(granted.fencing_token > held.fencing_token);
    session.close().await.unwrap();
    resumed.close().await.unwrap();
}

pub(super) async fn a_session_goes_on_after_its_coordinator_was_killed_or_is_told_of_the_loss(
    world: World,
) {
    const NAME: &str = "orphaned";
    let mut killed = world.another_coordinator().await;
    let mut holder = open_with_lease(&mut killed.client().await, LEASE * 2).await;
    let held = holder.acquire(NAME).await;
    killed.kill();
    if !world.kind().is_shared() {
        killed.restart_on_same_address().await;
        let mut client = killed.client().await;
        let mut resumed = client.resume(&holder.opened, vec![held]).await.unwrap();
        assert!(resumed.opened.grants.is_empty());
        assert_eq!(resumed.expect_lost().await.reason(), LostReason::Expired);
        return;
    }
    let mut elsewhere = world.client(1).await;
    let grants = vec![held.clone()];
    let mut resumed = elsewhere.resume(&holder.opened, grants).await.unwrap();
    let kept = &resumed.opened.grants;
    assert_eq!(kept.len(), 1, "it was still held");
    assert_eq!(kept[0].fencing_token, held.fencing_token);
    let resumed_at = Instant::now();
    while resumed_at.elapsed() < LEASE * 3 {
        assert!(
            !elsewhere.gets_for(NAME, "y", LEASE).await,
            "renewed by the other coordinator"
        );
        tokio::time::sleep(LEASE / 10).await;
    }
    assert!(resumed.release(NAME).await.released);
    resumed.close().await.unwrap();
}

pub(super) async fn a_lock_is_described_and_tokens_are_checked(world: World) {
    const NAME: &str = "described";
    let (mut near, mut far) = (world.client(0).await, world.client(1).await);
    let open = pb::OpenSession::default().called("holder");
    let mut holder = near.open_with(open).await.unwrap();
    let grant = holder.acquire_as(NAME, "h").await;
    let mut waiting = near.waits(sessionless_wait(NAME, "w", secs(60))).await;
    until_waiting(&near, NAME, 1).await;
    let seen = near.describe(NAME).await;
    assert_eq!(seen.mode(), LockMode::Exclusive);
    assert_eq!(seen.last_fencing_token, grant.fencing_token);
    let shown = &seen.holders[0];
    assert_eq!((shown.owner.as_str(), shown.hold_count), ("h", 1));
    assert_eq!(shown.client_name, "holder");
    assert_eq!(seen.waiters[0].owner, "w");
    assert!(!format!("{seen:?}").contains(&holder.id()), "it is secret");
    let left = std_duration(far.describe(NAME).await.remaining_lease);
    assert!(left > secs(15) && left <= secs(30), "{left:?}");

    assert!(far.check_token(NAME, grant.fencing_token).await.current);
    holder.close().await.unwrap();
    let newer = waiting.expect_granted().await;
    assert!(newer.fencing_token > grant.fencing_token);
    let stale = far.check_token(NAME, grant.fencing_token).await;
    assert!(!stale.current && stale.held);
    assert_eq!(stale.last_fencing_token, newer.fencing_token);
    far.release(NAME, "w").await.unwrap();
    eventually("it is free", || async {
        let seen = far.clone().describe(NAME).await;
        seen.holders.is_empty() && seen.last_fencing_token == newer.fencing_token
    })
    .await;
}
