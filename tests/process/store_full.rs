//! Bad days: the store has no memory left, or lets nobody in any more.

use crate::prelude::*;
use crate::steps::{HAND_OVER_MAX, LEASE, sessionless_wait, until_relying_on_messages};

#[tokio::test]
async fn without_memory_nothing_is_granted_but_what_is_held_is_renewed_and_given_back() {
    let (redis, coordinator, mut client) = one_coordinator().await;
    let mut holder = client.open().await;
    holder.acquire("build").await;
    holder.acquire("build").await;
    holder.acquire("other").await;
    let mut wait = client
        .acquire(sessionless_wait("build", "w", LEASE))
        .await
        .unwrap();
    until_waiting(&client, "build", 1).await;

    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = client.try_acquire("new", "a", LEASE).await.unwrap_err();
    expect_status(&refused, Code::ResourceExhausted, "STORE_OUT_OF_MEMORY");
    tokio::time::sleep(LEASE * 3 / 2).await;
    for name in ["build", "other"] {
        assert!(
            redis.lease_left(name).await.is_some(),
            "{name} was not renewed"
        );
    }
    assert_eq!(holder.release("build").await.hold_count, 1);
    let give_back = pb::ReleaseRequest::named("build")
        .of_session(holder.id())
        .with_id("give-back");
    assert!(client.release_with(give_back).await.unwrap().released);
    // The waiter's turn: it cannot be granted, and is told why instead of being left to wait.
    assert_eq!(refusal(wait.end().await), "STORE_OUT_OF_MEMORY");
    assert!(holder.release("other").await.released);

    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(holder.acquire("build").await.hold_count, 1);
    holder.close().await.unwrap();
    expect_serving(&coordinator).await;
}

#[tokio::test]
async fn at_the_limit_of_clients_those_that_are_in_go_on() {
    judged_by_time(async || {
        let (redis, coordinator, mut client) = one_coordinator().await;
        let second = Coordinator::start(&settings_on(&redis.url())).await;
        let mut far = second.client().await;
        // Only the first coordinator has a connection for its subscriptions.
        expect_serving(&second).await;
        let mut holder = client.open().await;
        holder.acquire("build").await;
        let waiter = timed_wait(&mut client, "build").await;
        until_relying_on_messages(&redis, "build").await;
        redis.command(&["CONFIG", "SET", "maxclients", "1"]).await;

        let late = Coordinator::start(&settings_on(&redis.url())).await;
        let asked = Instant::now();
        let refused = late
            .client()
            .await
            .try_acquire("new", "a", LEASE)
            .await
            .unwrap_err();
        since(asked).must_be_below(millis(900), "refused by a store that lets nobody in");
        expect_status(&refused, Code::Unavailable, "STORE_UNAVAILABLE");
        tokio::time::sleep(LEASE * 3 / 2).await;
        assert!(redis.lease_left("build").await.is_some());

        let (span, (_, mut next)) = released_to(&mut holder, "build", waiter).await;
        span.must_be_below(PROMPT, "woken at the limit of clients");
        // Without a subscription the waits at the second coordinator poll.
        let mut polling = far
            .acquire(sessionless_wait("build", "far", LEASE))
            .await
            .unwrap();
        let polling = timed(async move {
            polling.expect_granted().await;
            polling
        });
        until_waiting(&far, "build", 1).await;
        let released = Instant::now();
        assert!(next.release("build").await.released);
        let (granted_at, _) = polling.await.unwrap();
        between(released, granted_at)
            .must_be_below(millis(1200) + HAND_OVER_MAX, "granted by a poll alone");
        far.release("build", "far").await.unwrap();

        redis
            .command(&["CONFIG", "SET", "maxclients", "1000"])
            .await;
        expect_serving(&late).await;
        next.close().await.unwrap();
        holder.close().await.unwrap();
        expect_no_trace(&redis).await;
        expect_serving(&coordinator).await;
    })
    .await;
}
