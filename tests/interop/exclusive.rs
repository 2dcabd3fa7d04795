//! What is particular to locks with one holder: fencing tokens across both sides, and both watchdogs at their default settings.

use crate::{
    agent::Version,
    redis_server::eventually,
    redisson::Kind,
    world::{World, secs},
};

#[tokio::test]
async fn fencing_tokens_grow_across_both_sides() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.ours(Kind::Plain, "build").await;
    let mut last = 0;
    for round in 0..10 {
        let token: u64 = java
            .lock(Kind::Fenced, "build")
            .value()
            .await
            .parse()
            .unwrap();
        assert!(token > last, "round {round}: {token} after {last}");
        java.unlock(Kind::Fenced, "build").value().await;
        let grant = ours.acquire().await;
        assert!(
            grant.fencing_token > token,
            "round {round}: {grant:?} after {token}"
        );
        assert_eq!(ours.acquire().await.fencing_token, grant.fencing_token);
        ours.release().await;
        ours.release().await;
        last = grant.fencing_token;
    }
}

#[tokio::test]
async fn both_watchdogs_renew_at_their_default_settings() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.ours(Kind::Plain, "ours").await;
    ours.acquire().await;
    java.lock(Kind::Plain, "theirs").value().await;
    for name in ["ours", "theirs"] {
        eventually("a third of the lease is over", || async {
            world.lease_left(name).await.unwrap() < secs(21)
        })
        .await;
        eventually("it is renewed", || async {
            world.lease_left(name).await.unwrap() > secs(28)
        })
        .await;
    }
    assert_eq!(ours.release().await, 0);
    java.unlock(Kind::Plain, "theirs").value().await;
}
