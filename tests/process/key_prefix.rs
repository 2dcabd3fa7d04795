//! Names that have a prefix in the store and none for clients.

use crate::prelude::*;
use crate::{
    redisson_client::RedissonClient,
    steps::{keys_of, refusal_to_start, until_relying_on_messages},
};

async fn under(redis: &RedisServer, prefix: &str) -> (Coordinator, Client) {
    let settings: Settings = settings_on(&redis.url())
        .with("store.key_prefix", prefix)
        .with("store.poll_interval", "60s");
    let coordinator = Coordinator::start(&settings).await;
    coordinator.until_connected(1).await;
    let client = coordinator.client().await;
    (coordinator, client)
}

#[tokio::test]
async fn a_redisson_client_with_a_name_mapper_shares_the_lock() {
    let redis = RedisServer::start().await;
    let (_coordinator, mut client) = under(&redis, "app:").await;
    let mut redisson = RedissonClient::connect(&redis).await;
    assert_eq!(redisson.acquire("app:build", secs(60)).await, None);
    assert!(!client.gets_for("build", "x", secs(60)).await);
    let seen = client.describe("build").await;
    assert_eq!((seen.name.as_str(), seen.holders.len()), ("build", 1));

    let waiting = timed_wait(&mut client, "build").await;
    until_relying_on_messages(&redis, "app:build").await;
    assert_eq!(redisson.unlock("app:build").await, Some(true));
    let (_, (grant, mut session)) = waiting.await.unwrap();
    assert_eq!(grant.name, "build");
    let left = redisson.acquire("app:build", secs(60)).await;
    assert!(left.is_some_and(|left| left > 0), "{left:?}");

    let mut messages = redisson.subscribe("app:build").await;
    assert!(session.release("build").await.released);
    assert_eq!(messages.next().await, 0);
    assert_eq!(redisson.acquire("app:build", secs(60)).await, None);
}

#[tokio::test]
async fn coordinators_with_different_prefixes_do_not_see_each_other() {
    let redis = RedisServer::start().await;
    let (_a, mut first) = under(&redis, "a:").await;
    let (_b, mut second) = under(&redis, "b:").await;
    let (_c, mut plain) = under(&redis, "").await;
    for client in [&mut first, &mut second, &mut plain] {
        assert!(client.gets_for("build", "x", secs(60)).await);
    }
    let (_d, mut same) = under(&redis, "a:").await;
    assert!(!same.gets_for("build", "y", secs(60)).await);
}

#[tokio::test]
async fn every_key_has_the_prefix_and_no_answer_shows_it() {
    let redis = RedisServer::start().await;
    let (_coordinator, mut client) = under(&redis, "app:").await;
    for (number, mode) in (1..=4).map(|mode| (mode, LockMode::try_from(mode).unwrap())) {
        let request = try_request(&format!("lock-{number}"), "x")
            .in_mode(mode)
            .lasting(secs(60))
            .with_id("r");
        let tried = client.try_with(request).await.unwrap();
        assert_eq!(tried.grant.unwrap().name, format!("lock-{number}"));
    }
    let all = pb::TryAcquireAllRequest::default()
        .of_locks(
            ["l", "k"]
                .map(|name| pb::LockSpec {
                    name: name.to_owned(),
                    mode: 0,
                })
                .to_vec(),
        )
        .by("x");
    let tried = client.try_all(all.clone()).await.unwrap();
    let names: Vec<_> = tried
        .grants
        .iter()
        .map(|grant| grant.name.as_str())
        .collect();
    assert_eq!(names, ["k", "l"]);
    let others = all.by("y");
    let busy = client.try_all(others).await.unwrap();
    assert_eq!(busy.busy_name, "k");

    let mut semaphore = Semaphore::new(&client, "pool");
    semaphore.set(2).await;
    assert_eq!(semaphore.take("x", 1, secs(60)).await.name, "pool");
    assert_eq!(semaphore.describe().await.name, "pool");
    let mut latch = Latch::new(&client, "door");
    assert!(latch.set(1).await);
    assert_eq!(latch.describe().await.name, "door");

    let keys = keys_of(&redis, "*").await;
    assert!(keys.len() > 10, "{keys:?}");
    for key in keys {
        let tag = key.split(['{', '}']).find(|part| part.starts_with("app:"));
        assert!(tag.is_some(), "{key}");
    }
}

#[tokio::test]
async fn a_loss_is_told_by_the_name_that_the_client_knows() {
    let redis = RedisServer::start().await;
    let (_coordinator, mut client) = under(&redis, "app:").await;
    let mut session = client.open().await;
    let grant = session.acquire("build").await;
    redis.command(&["DEL", "app:build"]).await;
    let (lost, _) = lost_after_risk(&mut session).await;
    let lost = lost.grant.unwrap();
    assert_eq!(
        (lost.name.as_str(), lost.fencing_token),
        ("build", grant.fencing_token)
    );
}

#[tokio::test]
async fn a_session_is_resumed_under_the_names_that_the_client_knows() {
    let redis = RedisServer::start().await;
    let (a, mut client) = under(&redis, "app:").await;
    let (_b, mut other) = under(&redis, "app:").await;
    let mut session = client.open().await;
    let grant = session.acquire("build").await;
    let opened = session.opened.clone();
    a.kill();
    let resumed = other.resume(&opened, vec![grant]).await.unwrap();
    let names: Vec<_> = resumed
        .opened
        .grants
        .iter()
        .map(|grant| &grant.name)
        .collect();
    assert_eq!(names, ["build"]);
    let mut waiting = other.waits(acquire_request("build", "y")).await;
    resumed.close().await.unwrap();
    waiting.expect_granted().await;
}

#[tokio::test]
async fn an_impossible_prefix_is_refused_at_start() {
    for (prefix, problem) in [
        ("{app:", "opening brace"),
        ("redisson_lock_token:", "reserved"),
        ("{}", "empty hash tag"),
    ] {
        let (code, said) = refusal_to_start(&[("store.key_prefix", prefix)]).await;
        assert_eq!(code, Some(78), "{prefix}: {said}");
        assert!(
            said.contains("store.key_prefix") && said.contains(problem),
            "{said}"
        );
    }
}
