//! What is in Redis is what Redisson's `RLock` puts there, so that both can share a lock.

use crate::prelude::*;
use crate::{
    redisson_client::RedissonClient,
    steps::{HAND_OVER_MAX, LEASE, lease_end, sessionless_wait, until_relying_on_messages},
};

/// A coordinator that learns from messages and leases alone: its polls come too late to help.
async fn coordinator_without_polls() -> (RedisServer, Coordinator, Client) {
    let redis = RedisServer::start().await;
    let settings = settings_on(&redis.url()).with("store.poll_interval", "60s");
    let coordinator = Coordinator::start(&settings).await;
    let client = coordinator.client().await;
    (redis, coordinator, client)
}

#[tokio::test]
async fn mission_6_and_7_keys_fields_values_leases_and_messages_are_redissons() {
    let (redis, _coordinator, mut client) = one_coordinator().await;
    let listener = RedissonClient::connect(&redis).await;
    for name in ["build", "a:{b}", "{a}{b}", "ü"] {
        let mut messages = listener.subscribe(name).await;
        let mut session = client.open().await;
        let field = format!("{}:0", session.id());
        let first = session.acquire(name).await;
        assert_eq!(redis.text(&["TYPE", name]).await, "hash");
        assert_eq!(redis.text(&["HLEN", name]).await, "1");
        assert_eq!(redis.text(&["HGET", name, &field]).await, "1");
        let left = redis.lease_left(name).await.unwrap();
        assert!(left <= LEASE && left > LEASE / 2, "{left:?}");
        let counter = if name.contains('{') {
            format!("redisson_lock_token:{name}")
        } else {
            format!("redisson_lock_token:{{{name}}}")
        };
        assert_eq!(
            redis.text(&["GET", &counter]).await,
            first.fencing_token.to_string()
        );

        assert_eq!(session.acquire(name).await.hold_count, 2);
        assert_eq!(redis.text(&["HGET", name, &field]).await, "2");
        assert!(!session.release(name).await.released);
        assert_eq!(redis.text(&["HGET", name, &field]).await, "1");
        assert!(session.release(name).await.released);
        assert_eq!(redis.text(&["EXISTS", name]).await, "0");
        // The first message is that of the last release: the one in between published nothing.
        assert_eq!(messages.next().await, 0);
        assert_eq!(
            redis.text(&["GET", &counter]).await,
            first.fencing_token.to_string()
        );
        session.close().await.unwrap();
    }
    // A sessionless owner is the field itself, with the lease that it asked for.
    client
        .try_acquire("plain", "somebody", secs(20))
        .await
        .unwrap();
    assert_eq!(redis.text(&["HGET", "plain", "somebody"]).await, "1");
    let left = redis.lease_left("plain").await.unwrap();
    assert!(left <= secs(20) && left > secs(10), "{left:?}");
}

#[tokio::test]
async fn we_wait_for_a_redisson_client_and_its_unlock_wakes_us() {
    judged_by_time(async || {
        let (redis, _coordinator, mut client) = coordinator_without_polls().await;
        let mut redisson = RedissonClient::connect(&redis).await;
        assert_eq!(redisson.acquire("build", secs(30)).await, None);
        let refused = client.try_acquire("build", "a", LEASE).await.unwrap();
        assert!(!refused.acquired);
        let left = refused.holder_remaining_lease.unwrap().seconds;
        assert!((20..=30).contains(&left), "{left}");
        assert_eq!(refusal(client.release("build", "a").await), "NOT_OWNER");
        let seen = client.describe("build").await;
        assert_eq!(
            (seen.holders[0].owner.as_str(), seen.holders[0].hold_count),
            ("1", 1)
        );

        let waiter = timed_wait(&mut client, "build").await;
        until_relying_on_messages(&redis, "build").await;
        assert_eq!(redisson.acquire("build", secs(30)).await, None);
        assert_eq!(redisson.unlock("build").await, Some(false));
        let unlocked = Instant::now();
        assert_eq!(redisson.unlock("build").await, Some(true));
        let (granted_at, (grant, session)) = waiter.await.unwrap();
        between(unlocked, granted_at).must_be_below(PROMPT, "woken by a Redisson client");
        assert!(grant.fencing_token > 0);
        session.close().await.unwrap();
        expect_no_trace(&redis).await;
    })
    .await;
}

#[tokio::test]
async fn a_redisson_client_waits_for_us_and_our_release_wakes_it() {
    let (redis, _coordinator, mut client) = one_coordinator().await;
    let mut redisson = RedissonClient::connect(&redis).await;
    let mut session = client.open().await;
    let ours = session.acquire("build").await;
    let left = redisson.acquire("build", secs(30)).await.unwrap();
    assert!(left > 0 && left <= 2000, "{left}");
    assert_eq!(redisson.unlock("build").await, None, "not its to unlock");

    let mut messages = redisson.subscribe("build").await;
    assert!(redisson.acquire("build", secs(30)).await.is_some());
    // Ours is renewed; theirs is not ours to renew.
    tokio::time::sleep(LEASE * 3 / 2).await;
    assert!(redisson.acquire("build", secs(30)).await.is_some());
    assert!(session.release("build").await.released);
    assert_eq!(messages.next().await, 0);
    assert_eq!(redisson.acquire("build", secs(30)).await, None);
    assert_eq!(redis.text(&["HGET", "build", &redisson.owner]).await, "1");
    let op_id = session.send_release("build", "");
    assert_eq!(session.expect_failed(op_id).await, "NOT_OWNER");
    assert_eq!(redisson.unlock("build").await, Some(true));
    assert!(session.acquire("build").await.fencing_token > ours.fencing_token);
}

#[tokio::test]
async fn a_redisson_client_that_died_is_succeeded_when_its_lease_ends() {
    judged_by_time(async || {
        let (redis, _coordinator, mut client) = coordinator_without_polls().await;
        let mut redisson = RedissonClient::connect(&redis).await;
        assert_eq!(redisson.acquire("build", millis(1500)).await, None);
        let waiter = timed_wait(&mut client, "build").await;
        let end = lease_end(&redis, "build").await;
        drop(redisson);
        let (granted_at, _) = waiter.await.unwrap();
        between(end, granted_at).must_be_below(
            HAND_OVER_MAX,
            "hand-over after the end of a Redisson client's lease",
        );
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_is_forced_open_is_told_to_who_held_it() {
    let (redis, _coordinator, mut client) = one_coordinator().await;
    let mut redisson = RedissonClient::connect(&redis).await;
    let mut session = client.open().await;
    let held = session.acquire("build").await;
    // As `forceUnlock` does, and then somebody else is quicker than the watchdog.
    redis.command(&["DEL", "build"]).await;
    assert_eq!(redisson.acquire("build", secs(30)).await, None);
    let lost = session.expect_lost().await;
    assert_eq!(lost.reason(), pb::LostReason::TakenOver);
    assert_eq!(lost.grant.unwrap().fencing_token, held.fencing_token);
    assert_eq!(redis.text(&["HLEN", "build"]).await, "1");
}

#[tokio::test]
async fn a_key_that_is_no_lock_is_told_apart_and_left_alone() {
    let (redis, coordinator, mut client) = one_coordinator().await;
    redis.command(&["SET", "text", "abc"]).await;
    redis
        .command(&["HSET", "shared", "mode", "read", "x:1", "1"])
        .await;
    for name in ["text", "shared"] {
        let mut session = client.open().await;
        for request in [
            Request::Acquire(acquire_request(name, "")),
            Request::TryAcquire(try_request(name, "")),
            Request::Release(pb::ReleaseRequest::named(name)),
        ] {
            let op_id = session.send(request);
            assert_eq!(session.expect_failed(op_id).await, "WRONG_KIND", "{name}");
        }
        let described = session.send(Request::Describe(pb::DescribeRequest::named(name)));
        // A read/write lock can be described, but not be held in another mode.
        if name == "shared" {
            assert!(matches!(
                session.answer(described).await,
                Response::Described(_)
            ));
        } else {
            assert_eq!(session.expect_failed(described).await, "WRONG_KIND");
        }
        assert_eq!(session.acquire("good").await.hold_count, 1);
        session.close().await.unwrap();
    }
    assert_eq!(redis.text(&["GET", "text"]).await, "abc");
    // A name that turns into something else while it is waited for ends the wait, with the same
    // answer.
    client.try_acquire("turns", "a", secs(20)).await.unwrap();
    let mut wait = client
        .acquire(sessionless_wait("turns", "b", LEASE))
        .await
        .unwrap();
    until_waiting(&client, "turns", 1).await;
    redis.command(&["SET", "turns", "abc"]).await;
    assert_eq!(refusal(wait.end().await), "WRONG_KIND");
    coordinator.assert_alive();
}
