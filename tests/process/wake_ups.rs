//! Bad days: messages that get lost, on connections that are killed or fall silent. They are hints,
//! so no wait hangs.

use crate::prelude::*;
use crate::steps::until_relying_on_messages;

/// The longest pause between two polls of 1 s, which vary by a fifth, and what a hand-over may
/// take.
const POLL_MAX: Duration = millis(1200 + 200);

/// A coordinator behind a proxy that can silence the connection of its subscriptions and no other;
/// and a session elsewhere, for whose releases it needs messages.
async fn behind_a_proxy(
    poll_interval: &str,
    ping_interval: &str,
) -> (RedisServer, TcpProxy, [Coordinator; 2], Client, Session) {
    let redis = RedisServer::start().await;
    let proxy = TcpProxy::to(redis.port()).await;
    let on = |store: &str| settings_on(store).with("session.lease", "30s");
    let elsewhere = Coordinator::start(&on(&redis.url())).await;
    let holder = elsewhere.client().await.open().await;
    let settings = on(&proxy.url())
        .with("store.poll_interval", poll_interval)
        .with("store.pubsub_ping_interval", ping_interval);
    let coordinator = Coordinator::start(&settings).await;
    let client = coordinator.client().await;
    coordinator.until_connected(1).await;
    proxy.spare_open_connections();
    // Opened for subscriptions of the coordinators themselves; the next one is not spared.
    redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    (redis, proxy, [coordinator, elsewhere], client, holder)
}

#[tokio::test]
async fn a_killed_subscription_still_wakes() {
    judged_by_time(async || {
        let (redis, _proxy, coordinators, mut client, mut holder) =
            behind_a_proxy("60s", "60s").await;
        for _ in 0..5 {
            holder.acquire("build").await;
            let waiter = timed_wait(&mut client, "build").await;
            until_relying_on_messages(&redis, "build").await;
            redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
            let released = Instant::now();
            assert!(holder.release("build").await.released);
            let (granted_at, (_, session)) = waiter.await.unwrap();
            between(released, granted_at)
                .must_be_below(PROMPT, "woken although the subscription was killed");
            session.close().await.unwrap();
        }
        expect_no_trace(&redis).await;
        coordinators.iter().for_each(Coordinator::assert_alive);
    })
    .await;
}

#[tokio::test]
async fn a_silent_subscription_is_made_up_for_by_polls() {
    judged_by_time(async || {
        let (redis, proxy, _coordinators, mut client, mut holder) =
            behind_a_proxy("1s", "60s").await;
        holder.acquire("build").await;
        let waiter = timed_wait(&mut client, "build").await;
        until_relying_on_messages(&redis, "build").await;
        proxy.silence();
        let (span, (_, session)) = released_to(&mut holder, "build", waiter).await;
        span.must_be_below(POLL_MAX, "granted by a poll");
        session.close().await.unwrap();
        holder.acquire("build").await;

        // This one's subscription is never confirmed, which it hears before the release.
        let waiter = timed_wait(&mut client, "build").await;
        tokio::time::sleep(millis(500)).await;
        let (span, _) = released_to(&mut holder, "build", waiter).await;
        span.must_be_below(POLL_MAX, "granted without a subscription");
    })
    .await;
}

#[tokio::test]
async fn a_silent_subscription_is_found_out_and_replaced() {
    judged_by_time(async || {
        let (redis, proxy, _coordinators, mut client, mut holder) =
            behind_a_proxy("60s", "300ms").await;
        holder.acquire("build").await;
        let waiter = timed_wait(&mut client, "build").await;
        until_relying_on_messages(&redis, "build").await;
        proxy.silence();
        let released = Instant::now();
        assert!(holder.release("build").await.released);
        let (granted_at, (_, session)) = waiter.await.unwrap();
        // A probe, and the time until the next, in which it should have been answered.
        between(released, granted_at).must_be_below(
            millis(600) + PROMPT,
            "granted after a silent connection was replaced",
        );

        // From here on messages arrive again.
        session.close().await.unwrap();
        holder.acquire("build").await;
        let waiter = timed_wait(&mut client, "build").await;
        until_relying_on_messages(&redis, "build").await;
        let (span, (_, session)) = released_to(&mut holder, "build", waiter).await;
        span.must_be_below(PROMPT, "woken by the replaced subscription");
        session.close().await.unwrap();
    })
    .await;
}
