//! Waiting: nobody is forgotten, nobody stays behind, and the store is not asked more than needed.

use crate::support::prelude::*;

fn wait(name: &str, owner: &str, wait_timeout: std::time::Duration) -> pb::AcquireRequest {
    acquire_request(name, owner).within(wait_timeout)
}

#[tokio::test(start_paused = true)]
async fn mission_10_try_subscribe_try_again_then_sleep_until_the_message() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    let mut waiting = client.acquire(wait("a", "y", secs(30))).await.unwrap();
    let told = waiting.expect_waiting().await;
    assert_eq!(told.position, 1);
    assert_eq!(std_duration(told.holder_remaining_lease), secs(60));
    eventually("subscribed", || async {
        world.store.subscription_count(&keys::channel("a")) == 1
    })
    .await;
    let released_at = Instant::now();
    client.release("a", "x").await.unwrap();
    waiting.expect_granted().await;
    assert!(
        released_at.elapsed() < millis(50),
        "woken by the message, not by a poll"
    );
    eventually("unsubscribed", || async {
        world.store.subscription_count(&keys::channel("a")) == 0
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn mission_10_a_waiter_sleeps_no_longer_than_the_holders_lease_and_its_own_limit() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", millis(1500)).await.unwrap();
    let begun = Instant::now();
    let mut patient = client.acquire(wait("a", "y", secs(30))).await.unwrap();
    let mut hasty = client.acquire(wait("a", "z", millis(700))).await.unwrap();
    hasty.expect_timeout().await;
    assert!(begun.elapsed() >= millis(700) && begun.elapsed() < millis(750));
    patient.expect_granted().await;
    assert!(begun.elapsed() >= millis(1500) && begun.elapsed() < millis(1600));
}

#[tokio::test(start_paused = true)]
async fn mission_24_a_second_contender_waits_until_the_first_releases() {
    let (world, mut client) = World::with_client().await;
    let mut a = client.open().await;
    let mut b = client.open().await;
    a.acquire("x").await;
    let asked = b.send_acquire("x", "");
    tokio::time::sleep(secs(45)).await;
    world.until_waiting(0, 1).await;
    a.release("x").await;
    b.expect_granted(asked).await;
}

#[tokio::test(start_paused = true)]
async fn mission_25_three_contenders_one_after_the_other() {
    let (_world, mut near, mut far) = World::two_with_clients().await;
    near.try_acquire("x", "a", secs(60)).await.unwrap();
    let mut b = near.acquire(acquire_request("x", "b")).await.unwrap();
    let mut c = far.acquire(acquire_request("x", "c")).await.unwrap();
    b.expect_waiting().await;
    c.expect_waiting().await;
    near.release("x", "a").await.unwrap();
    let (first, second) = tokio::select! {
        _ = b.expect_granted() => ("b", "c"),
        _ = c.expect_granted() => ("c", "b"),
    };
    let holders = near.describe("x").await.holders;
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].owner, first);
    near.release("x", first).await.unwrap();
    if second == "b" {
        b.expect_granted().await
    } else {
        c.expect_granted().await
    };
}

#[tokio::test(start_paused = true)]
async fn mission_26_a_limit_shorter_than_the_lease_gives_nothing_in_about_that_time() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(5)).await.unwrap();
    let begun = Instant::now();
    client.times_out(wait("a", "y", millis(10))).await;
    assert!(begun.elapsed() < millis(20), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn mission_28_of_1000_callers_with_10_ms_exactly_one_is_granted() {
    let (world, client) = World::with_client().await;
    let calls = (0..1000).map(|n| {
        let mut client = client.clone();
        async move {
            let request = wait("a", &format!("o{n}"), millis(10));
            let end = client.acquire(request).await.unwrap().end().await.unwrap();
            matches!(end, pb::acquire_response::Event::Granted(_))
        }
    });
    let granted = join_all(calls)
        .await
        .into_iter()
        .filter(|granted| *granted)
        .count();
    assert_eq!(granted, 1);
    world.until_waiting(0, 0).await;
}

#[tokio::test(start_paused = true)]
async fn mission_29_of_100_callers_with_10_s_all_are_granted_none_together() {
    let world = World::of(2);
    let holders = std::sync::atomic::AtomicI32::new(0);
    let (near, far) = (world.client(0).await, world.client(1).await);
    let calls = (0..100).map(|n| {
        let mut client = if n % 2 == 0 {
            near.clone()
        } else {
            far.clone()
        };
        let holders = &holders;
        async move {
            let owner = format!("o{n}");
            client.granted(wait("a", &owner, secs(10))).await;
            assert_eq!(
                holders.fetch_add(1, std::sync::atomic::Ordering::SeqCst),
                0,
                "two at once"
            );
            tokio::task::yield_now().await;
            holders.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            client.release("a", &owner).await.unwrap();
        }
    });
    join_all(calls).await;
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_leaves_nothing_and_passes_the_wake_up_on() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(600)).await.unwrap();
    let first = client.waits(acquire_request("a", "first")).await;
    let mut second = client
        .acquire(acquire_request("a", "second"))
        .await
        .unwrap();
    assert_eq!(second.expect_waiting().await.position, 2);
    drop(first);
    let moved = second.expect_waiting().await;
    assert_eq!(moved.position, 1);
    client.release("a", "x").await.unwrap();
    second.expect_granted().await;
    client.release("a", "second").await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_ends_its_waits() {
    let world = World::new();
    let (mut holder, mut waiter) = (world.client(0).await, world.client(0).await);
    holder.try_acquire("a", "x", secs(5)).await.unwrap();
    let _call = waiter.waits(acquire_request("a", "y")).await;
    waiter.cut();
    eventually("the wait is gone", || async {
        holder.clone().describe("a").await.waiter_count == 0
    })
    .await;
    holder.release("a", "x").await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_the_call_ends_the_wait_with_a_typed_answer() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    let mut request = tonic::Request::new(acquire_request("a", "y"));
    request.set_timeout(secs(2));
    let begun = Instant::now();
    let mut stream = client.api.acquire(request).await.unwrap().into_inner();
    let mut last = None;
    while let Some(response) = stream.message().await.unwrap() {
        last = response.event;
    }
    assert!(
        matches!(last, Some(pb::acquire_response::Event::NotGranted(_))),
        "{last:?}"
    );
    assert!(begun.elapsed() < secs(2));
    world.until_waiting(0, 0).await;
}

#[tokio::test(start_paused = true)]
async fn zero_waits_not_at_all_and_a_huge_wait_is_no_limit() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    let begun = Instant::now();
    client.times_out(wait("a", "y", secs(0))).await;
    assert_eq!(begun.elapsed(), secs(0));
    let huge = prost_types::Duration {
        seconds: 315_576_000_000,
        nanos: 0,
    };
    let request = pb::AcquireRequest {
        wait_timeout: Some(huge),
        ..acquire_request("a", "y")
    };
    client.granted(request).await;
}

#[tokio::test(start_paused = true)]
async fn no_orphan_is_left_when_the_caller_goes_at_any_instant() {
    let (world, mut holder) = World::with_client().await;
    for at in 80..120 {
        holder.try_acquire("a", "x", millis(100)).await.unwrap();
        let mut waiter = world.client(0).await;
        let request = acquire_request("a", "y").lasting(secs(5));
        // The lease of the holder ends in the middle of the instants that are tried.
        let call = async { waiter.acquire(request).await.unwrap().end().await.unwrap() };
        let told = tokio::time::timeout(millis(at), call).await.is_ok();
        waiter.cut();
        let cut_at = Instant::now();
        eventually("nobody waits and nobody holds", || async {
            let seen = holder.clone().describe("a").await;
            seen.waiter_count == 0 && seen.holders.is_empty()
        })
        .await;
        // What was on its way when the connection broke cannot be told from what arrived; its lease
        // ends it.
        assert!(
            told || cut_at.elapsed() <= millis(5100),
            "{:?}",
            cut_at.elapsed()
        );
    }
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn waits_are_bounded_and_the_limit_has_a_name() {
    let options = Options::with(|it| {
        it.limits.waiters_per_lock_max = 2;
        it.limits.waiters_max = 3;
    });
    let world = World::with(&options);
    let mut client = world.client(0).await;
    for name in ["a", "b"] {
        client.try_acquire(name, "x", secs(600)).await.unwrap();
    }
    let mut calls = Vec::new();
    for (name, expected) in [
        ("a", ""),
        ("a", ""),
        ("a", "WAITERS_PER_LOCK_MAX"),
        ("b", ""),
        ("b", "WAITERS_MAX"),
    ] {
        let mut call = client
            .acquire(acquire_request(name, &format!("o{}", calls.len())))
            .await
            .unwrap();
        match call.next().await {
            Ok(Some(pb::acquire_response::Event::Waiting(_))) => assert_eq!(expected, ""),
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::ResourceExhausted);
                assert_eq!(reason(&status), expected);
            }
            other => panic!("{other:?}"),
        }
        calls.push(call);
    }
}
