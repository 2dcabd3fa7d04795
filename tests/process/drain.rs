//! A coordinator that is asked to stop lets nobody down.

use std::time::Duration;

use lockkeeper_api::pb::session_response::Response;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::time::Instant;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    client::{acquire_request, reason},
    coordinator::Coordinator,
    redis_server::{RedisServer, eventually},
    steps::{
        judged_by_time, lockkeeper, millis, secs, settings_on, since, timed, timed_wait,
        until_waiting, wait_for,
    },
};

/// Of a lease of 30 s, when it is not whole any more.
const LEASE_LEFT: Duration = secs(29);

#[tokio::test]
async fn waits_end_sessions_are_told_and_locks_stay_with_a_whole_lease() {
    judged_by_time(async || {
        let redis = RedisServer::start().await;
        let settings = settings_on(&redis.url()).with("session.lease", "30s");
        let (a, b) = tokio::join!(Coordinator::start(&settings), Coordinator::start(&settings));
        let (mut at_a, mut at_b) = (a.client().await, b.client().await);
        let mut holder = at_a.open().await;
        let held = holder.acquire("build").await;
        let mut waiting = at_a.waits(acquire_request("build", "w")).await;
        let (mut in_session, op_id) = wait_for(&mut at_a, "build").await;
        let elsewhere = timed_wait(&mut at_b, "build").await;
        let request = HealthCheckRequest {
            service: "lockkeeper.v1.LockService".to_owned(),
        };
        let mut health = HealthClient::new(at_a.channel())
            .watch(request)
            .await
            .unwrap()
            .into_inner();
        let status = health.message().await.unwrap().unwrap().status();
        assert_eq!(status, ServingStatus::Serving);
        eventually("the lease is not whole any more", || async {
            redis.lease_left("build").await.unwrap() < LEASE_LEFT
        })
        .await;

        let asked = Instant::now();
        a.signal(Signal::SIGTERM);
        let ended = waiting.end().await.unwrap_err();
        assert_eq!(reason(&ended), "DRAINING");
        assert_eq!(in_session.expect_failed(op_id).await, "DRAINING");
        assert!(matches!(holder.notice().await, Response::GoingAway(_)));
        assert_eq!(reason(&holder.read_to_end().await.unwrap_err()), "DRAINING");
        let left = redis.lease_left("build").await.unwrap();
        assert!(left > LEASE_LEFT, "{left:?}");
        let status = health.message().await.unwrap().unwrap().status();
        assert_eq!(status, ServingStatus::NotServing);
        let exited = a.exit().await;
        assert_eq!(exited.code(), Some(0));
        since(asked).must_be_below(secs(5), "a drain with waits and sessions");

        let mut resumed = at_b
            .resume(&holder.opened, vec![held.clone()])
            .await
            .unwrap();
        assert_eq!(resumed.opened.grants[0].fencing_token, held.fencing_token);
        assert!(!elsewhere.is_finished());
        assert!(resumed.release("build").await.released);
        let (_, (granted, _session)) = elsewhere.await.unwrap();
        assert!(granted.fencing_token > held.fencing_token);
    })
    .await;
}

#[tokio::test]
async fn clients_that_do_not_move_hold_it_up_for_the_grace_time_at_most() {
    judged_by_time(async || {
        let redis = RedisServer::start().await;
        let settings = settings_on(&redis.url()).with("server.drain_grace", "1s");
        let coordinator = Coordinator::start(&settings).await;
        let mut client = coordinator.client().await;
        let mut holder = client.open().await;
        holder.acquire("build").await;
        let process = lockkeeper(&coordinator, &["acquire", "build", "--wait", "60s"]).spawn();
        let process = process.unwrap();
        until_waiting(&client, "build", 1).await;
        let id = Pid::from_raw(process.id().unwrap().try_into().unwrap());
        kill(id, Signal::SIGSTOP).unwrap();

        let asked = Instant::now();
        coordinator.signal(Signal::SIGTERM);
        assert_eq!(coordinator.exit().await.code(), Some(0));
        since(asked).must_be_below(
            secs(1) + millis(900),
            "a drain with a client that does not move",
        );
    })
    .await;
}

#[tokio::test]
async fn a_frozen_store_does_not_hold_it_up_either() {
    judged_by_time(async || {
        let redis = RedisServer::start().await;
        let settings = settings_on(&redis.url()).with("server.drain_grace", "2s");
        let coordinator = Coordinator::start(&settings).await;
        let mut holder = coordinator.client().await.open().await;
        holder.acquire("build").await;
        redis.stop();
        let asked = Instant::now();
        coordinator.signal(Signal::SIGINT);
        let told = timed(async move { holder.read_to_end().await });
        assert_eq!(coordinator.exit().await.code(), Some(0));
        since(asked).must_be_below(secs(2) + millis(900), "a drain while the store is frozen");
        assert_eq!(reason(&told.await.unwrap().1.unwrap_err()), "DRAINING");
    })
    .await;
}

#[tokio::test]
async fn an_idle_coordinator_stops_at_once() {
    judged_by_time(async || {
        let redis = RedisServer::start().await;
        let coordinator = Coordinator::start(&settings_on(&redis.url())).await;
        let _client = coordinator.client().await;
        let asked = Instant::now();
        coordinator.signal(Signal::SIGTERM);
        assert_eq!(coordinator.exit().await.code(), Some(0));
        since(asked).must_be_below(secs(1), "an idle coordinator stops");
    })
    .await;
}
