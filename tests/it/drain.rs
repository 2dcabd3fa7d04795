//! A coordinator that stops lets nobody down.

use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn a_drain_ends_waits_keeps_grants_with_a_full_lease_and_sends_sessions_away() {
    let world = World::of(2);
    let mut client = world.client(0).await;
    let open = pb::OpenSession::default().upon_disconnect(pb::OnDisconnect::Release);
    let mut hasty = client.open_with(open).await.unwrap();
    hasty.acquire("b").await;
    let mut session = client.open().await;
    let grant = session.acquire("a").await;
    let mut waiting = client.waits(acquire_request("a", "w")).await;
    tokio::time::sleep(secs(8)).await;
    world.coordinator(0).drain(secs(5)).await;
    let ended = waiting.end().await.unwrap_err();
    expect_status(&ended, tonic::Code::Unavailable, "DRAINING");
    assert_eq!(
        world.redis(&["PTTL", "a"]),
        Value::Int(30_000),
        "one more full lease"
    );
    assert!(matches!(session.notice().await, Response::GoingAway(_)));
    assert_eq!(refusal(session.read_to_end().await), "DRAINING");
    hasty.read_to_end().await.unwrap_err();
    assert_eq!(
        world.redis(&["EXISTS", "b"]),
        Value::Int(1),
        "not even those are released"
    );
    assert_eq!(
        refusal(client.try_acquire("b", "x", secs(1)).await),
        "DRAINING"
    );
    assert_eq!(
        reason(
            &client
                .open_with(pb::OpenSession::default())
                .await
                .err()
                .unwrap()
        ),
        "DRAINING"
    );
    let mut elsewhere = world.client(1).await;
    let mut resumed = elsewhere
        .resume(&session.opened, vec![grant])
        .await
        .unwrap();
    assert_eq!(resumed.opened.grants.len(), 1);
    assert!(
        world.coordinator(0).stop(secs(5)).await,
        "all tasks have ended"
    );
    tokio::time::sleep(secs(60)).await;
    assert!(resumed.release("a").await.released);
}

#[tokio::test(start_paused = true)]
async fn health_tells_of_the_drain_and_of_the_store() {
    use tonic_health::pb::{
        HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
    };
    let (faults, world) = World::faulty();
    let client = world.client(0).await;
    let check = |service: &str| {
        let mut health = HealthClient::new(client.channel());
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        async move { health.check(request).await.unwrap().into_inner().status() }
    };
    let lock_service = "lockkeeper.v1.LockService";
    assert_eq!(check("").await, ServingStatus::Serving);
    assert_eq!(check(lock_service).await, ServingStatus::Serving);
    faults.set_unavailable(true);
    eventually("the store is missed", || async {
        check(lock_service).await == ServingStatus::NotServing
    })
    .await;
    assert_eq!(check("").await, ServingStatus::Serving, "the process lives");
    faults.set_unavailable(false);
    eventually("the store is back", || async {
        check(lock_service).await == ServingStatus::Serving
    })
    .await;
    world.coordinator(0).drain(secs(1)).await;
    assert_eq!(check("").await, ServingStatus::NotServing);
    assert_eq!(check(lock_service).await, ServingStatus::NotServing);
}
