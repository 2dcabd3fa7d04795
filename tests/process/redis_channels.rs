//! Subscriptions that a real server confirms late, or not at first.

use lockkeeper_store::host::{Connected, HostError, Wake};

use crate::hosts::{host_with, message, next_wake};
use crate::prelude::*;

const CALL_TIMEOUT: Duration = millis(500);

fn host_at(server: &RedisServer) -> Connected {
    host_with(&server.url(), |it| it.call_timeout = CALL_TIMEOUT)
}

#[tokio::test]
async fn a_subscription_that_is_confirmed_too_late_is_a_gap() {
    let server = RedisServer::start().await;
    let (host, mut wakes) = host_with(&server.url(), |it| {
        it.call_timeout = CALL_TIMEOUT;
        // So long that the connection is not given up.
        it.ping_interval = secs(30);
    });
    host.subscribe("confirmed").await.expect("subscribed");
    server.stop();
    let late = host.subscribe("late").await;
    assert!(matches!(late, Err(HostError::Unavailable(_))), "{late:?}");
    server.cont();
    assert_eq!(next_wake(&mut wakes).await, Wake::Gap);
}

#[tokio::test]
async fn a_channel_that_was_refused_is_subscribed_when_it_is_allowed() {
    let server = RedisServer::start().await;
    let (host, mut wakes) = host_at(&server);
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
    assert_eq!(next_wake(&mut wakes).await, Wake::Gap);
    server.command(&["PUBLISH", "channel", "1"]).await;
    assert_eq!(next_wake(&mut wakes).await, message("channel", "1"));
}

#[tokio::test]
async fn a_subscription_is_back_at_once_however_often_it_was_lost() {
    judged_by_time(async || {
        let server = RedisServer::start().await;
        let (host, mut wakes) = host_at(&server);
        host.subscribe("channel").await.expect("subscribed");
        // If the pauses went on doubling, the last would be a second.
        for _ in 0..8 {
            let killed = Instant::now();
            server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
            assert_eq!(next_wake(&mut wakes).await, Wake::Gap);
            since(killed).must_be_below(Duration::from_millis(400), "subscribed again");
        }
    })
    .await;
}
