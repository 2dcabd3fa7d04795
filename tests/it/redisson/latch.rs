//! `RedissonCountDownLatchTest` and `RedissonCountDownLatchConcurrentTest`.

use lockkeeper_api::pb::await_latch_response::Event;

use crate::support::counters::LatchCall;
use crate::support::prelude::*;

async fn start() -> (World, Latch) {
    let world = World::new();
    let latch = Latch::new(&world.client(0).await, "latch");
    (world, latch)
}

#[tokio::test(start_paused = true)]
async fn await_timeout() {
    let (_world, mut latch) = start().await;
    assert!(latch.set(1).await);
    let mut call = latch.wait(Some(millis(550))).await;
    tokio::time::sleep(millis(500)).await;
    assert_eq!(latch.count_down(1).await.unwrap(), 0);
    call.expect_opened().await;
}

#[tokio::test(start_paused = true)]
async fn await_timeout_fail() {
    let (_world, mut latch) = start().await;
    assert!(latch.set(1).await);
    let begun = Instant::now();
    let end = latch.wait(Some(millis(500))).await.end().await;
    assert!(matches!(end, Event::NotOpened(_)), "{end:?}");
    assert!(begun.elapsed() >= millis(500) && begun.elapsed() < millis(600));
    assert_eq!(latch.describe().await.count, 1);
}

#[tokio::test(start_paused = true)]
async fn multi_await() {
    let (_world, mut latch) = start().await;
    assert!(latch.set(5).await);
    let mut calls = Vec::new();
    for _ in 0..5 {
        calls.push(latch.wait(None).await);
    }
    for left in (0..5).rev() {
        assert_eq!(latch.count_down(1).await.unwrap(), left);
    }
    let opened = Instant::now();
    join_all(calls.iter_mut().map(LatchCall::expect_opened)).await;
    assert!(opened.elapsed() < millis(50), "{:?}", opened.elapsed());
}

/// What was never set is open in Redisson too; but there it may be counted down.
#[tokio::test(start_paused = true)]
async fn count_down() {
    let (_world, mut latch) = start().await;
    assert_eq!(latch.describe().await.count, 0);
    latch.wait(None).await.expect_opened().await;
    assert_eq!(refusal(latch.count_down(1).await), "COUNT_EXCEEDED");
    assert!(latch.set(1).await);
    assert_eq!(latch.count_down(1).await.unwrap(), 0);
    assert_eq!(refusal(latch.count_down(1).await), "COUNT_EXCEEDED");
    latch.wait(None).await.expect_opened().await;
}

/// `testDelete` and `testDeleteFailed`.
#[tokio::test(start_paused = true)]
async fn delete() {
    let (_world, mut latch) = start().await;
    assert!(!latch.delete().await);
    assert!(latch.set(1).await);
    let mut call = latch.wait(None).await;
    call.expect_waiting(1).await;
    assert!(latch.delete().await);
    call.expect_opened().await;
}

/// `testTrySetCount` and `testCount`.
#[tokio::test(start_paused = true)]
async fn try_set_count() {
    let (_world, mut latch) = start().await;
    assert!(latch.set(1).await);
    assert!(!latch.set(2).await);
    assert_eq!(latch.describe().await.count, 1);
}

#[tokio::test(start_paused = true)]
async fn single_count_down_await_single_instance() {
    let (_world, mut latch) = start().await;
    assert!(latch.set(10).await);
    let waiting = (0..24).map(|_| {
        let mut latch = latch.clone();
        async move { latch.wait(Some(secs(10))).await.expect_opened().await }
    });
    let counting = join_all((0..10).map(|_| {
        let mut latch = latch.clone();
        async move { latch.count_down(1).await.unwrap() }
    }));
    let (_, counts) = tokio::join!(join_all(waiting), counting);
    assert_eq!(counts.iter().filter(|count| **count == 0).count(), 1);
}
