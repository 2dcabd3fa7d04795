//! A coordinator that is asked to stop lets nobody down.

use crate::prelude::*;

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
        assert_eq!(refusal(told.await.unwrap().1), "DRAINING");
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

#[tokio::test]
async fn a_hangup_stops_it_too_unless_it_is_ignored() {
    let start = async |hangup: &str| {
        let settings = settings_on("embedded:").started_by(&["env", hangup]);
        let coordinator = Coordinator::start(&settings).await;
        coordinator.signal(Signal::SIGHUP);
        coordinator
    };
    let stopped = start("--default-signal=HUP").await;
    assert_eq!(stopped.exit().await.code(), Some(0));
    let goes_on = start("--ignore-signal=HUP").await;
    let mut client = goes_on.client().await;
    client.open().await.acquire("build").await;
    goes_on.signal(Signal::SIGTERM);
    assert_eq!(goes_on.exit().await.code(), Some(0));
}
