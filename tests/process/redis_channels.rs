//! Subscriptions that a real server confirms late, or not at first.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_store::host::{
    HostError, Wake,
    redis::{RedisConfig, connect},
};
use tokio::time::{Instant, timeout};

use crate::{
    redis_server::RedisServer,
    steps::{judged_by_time, since},
};

const PATIENCE: Duration = Duration::from_secs(15);

fn config(server: &RedisServer) -> RedisConfig {
    RedisConfig {
        url: server.url(),
        call_timeout: Duration::from_millis(500),
        ..RedisConfig::default()
    }
}

#[tokio::test]
async fn a_subscription_that_is_confirmed_too_late_is_a_gap() {
    let server = RedisServer::start().await;
    let (host, mut wakes) = connect(&RedisConfig {
        // So long that the connection is not given up.
        ping_interval: PATIENCE * 2,
        ..config(&server)
    })
    .expect("a good configuration");
    host.subscribe("confirmed").await.expect("subscribed");
    server.stop();
    let late = host.subscribe("late").await;
    assert!(matches!(late, Err(HostError::Unavailable(_))), "{late:?}");
    server.cont();
    let wake = timeout(PATIENCE, wakes.recv()).await.expect("a wake came");
    assert_eq!(wake, Some(Wake::Gap));
}

#[tokio::test]
async fn a_channel_that_was_refused_is_subscribed_when_it_is_allowed() {
    let server = RedisServer::start().await;
    let (host, mut wakes) = connect(&config(&server)).expect("a good configuration");
    let allow = async |channels| {
        let set = ["ACL", "SETUSER", "default", channels];
        server.command(&set).await;
    };
    allow("resetchannels").await;
    let refused = host.subscribe("channel").await;
    assert!(
        matches!(&refused, Err(HostError::Rejected { code, .. }) if code == "NOPERM"),
        "{refused:?}"
    );
    allow("allchannels").await;
    let mut next = async || timeout(PATIENCE, wakes.recv()).await.expect("a wake came");
    assert_eq!(next().await, Some(Wake::Gap));
    server.command(&["PUBLISH", "channel", "1"]).await;
    let message = Wake::Message {
        channel: "channel".to_owned(),
        payload: Bytes::from_static(b"1"),
    };
    assert_eq!(next().await, Some(message));
}

#[tokio::test]
async fn a_subscription_is_back_at_once_however_often_it_was_lost() {
    judged_by_time(async || {
        let server = RedisServer::start().await;
        let (host, mut wakes) = connect(&config(&server)).expect("a good configuration");
        host.subscribe("channel").await.expect("subscribed");
        // If the pauses went on doubling, the last would be a second.
        for _ in 0..8 {
            let killed = Instant::now();
            server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
            let wake = timeout(PATIENCE, wakes.recv()).await.expect("a wake came");
            assert_eq!(wake, Some(Wake::Gap));
            since(killed).must_be_below(Duration::from_millis(400), "subscribed again");
        }
    })
    .await;
}
