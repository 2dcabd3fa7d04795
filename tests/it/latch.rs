//! Latches: all that wait are told when the count is down.

use lockkeeper_api::pb::await_latch_response::Event;

use crate::support::counters::LatchCall;
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn all_that_wait_are_told_when_a_latch_opens() {
    let world = World::of(2);
    let clients = [world.client(0).await, world.client(1).await];
    let mut latch = Latch::new(&clients[0], "l");
    assert!(latch.set(2).await);
    assert!(!latch.set(7).await, "it has a count");
    let mut calls = Vec::new();
    for n in 0..20 {
        let mut call = Latch::new(&clients[n % 2], "l").wait(None).await;
        call.expect_waiting(2).await;
        calls.push(call);
    }
    let channel = keys::latch_channel("l");
    world.until_listening(&channel, 2).await;
    assert_eq!(latch.describe().await.waiter_count, 10, "at the one asked");
    let lowered_at = Instant::now();
    assert_eq!(latch.count_down(1).await.unwrap(), 1);
    for call in calls.iter_mut().step_by(2) {
        call.expect_waiting(1).await;
    }
    assert!(lowered_at.elapsed() < millis(50), "where it was lowered");
    for call in calls.iter_mut().skip(1).step_by(2) {
        call.expect_waiting(1).await;
    }
    let opened_at = Instant::now();
    assert_eq!(latch.count_down(1).await.unwrap(), 0);
    join_all(calls.iter_mut().map(LatchCall::expect_opened)).await;
    assert!(
        opened_at.elapsed() < millis(50),
        "by the message, not by a poll"
    );
    latch.wait(None).await.expect_opened().await;
    world.expect_nothing_left(&["l"]).await;
    assert_eq!(world.store.key_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_latch_is_bounded_and_leaves_nothing() {
    let (world, client) = World::with_client().await;
    let mut latch = Latch::new(&client, "l");
    latch.set(1).await;
    let begun = Instant::now();
    let ended = latch.wait(Some(secs(0))).await.end().await;
    assert_eq!(begun.elapsed(), secs(0));
    assert!(matches!(ended, Event::NotOpened(_)), "{ended:?}");
    let ended = expect!(
        latch.wait(Some(millis(700))).await.end().await,
        Event::NotOpened
    );
    assert_eq!(ended.reason(), pb::NotGrantedReason::WaitTimeout);
    assert_eq!(ended.count, 1);
    assert!(begun.elapsed() >= millis(700) && begun.elapsed() < millis(750));
    let mut head = latch.wait(None).await;
    head.expect_waiting(1).await;
    let mut next = latch.wait(None).await;
    next.expect_waiting(1).await;
    drop(head);
    latch.count_down(1).await.unwrap();
    next.expect_opened().await;
    world.expect_nothing_left(&["l"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_latch_that_is_deleted_or_forgotten_is_open() {
    let world = World::new();
    let mut latch = Latch::new(&world.client(0).await, "l");
    latch.set(1).await;
    let mut call = latch.wait(None).await;
    call.expect_waiting(1).await;
    assert!(latch.delete().await);
    call.expect_opened().await;
    assert!(!latch.delete().await);
    let request = pb::SetCountRequest {
        name: "l".to_owned(),
        count: 3,
        ttl: Some(proto(millis(1500))),
        ..Default::default()
    };
    latch.api.set_count(request).await.unwrap();
    let begun = Instant::now();
    let mut call = latch.wait(None).await;
    call.expect_opened().await;
    assert!(begun.elapsed() >= millis(1500) && begun.elapsed() < millis(1600));
}

/// Another program counts down without a word, as long as the latch does not open.
#[tokio::test(start_paused = true)]
async fn a_count_that_others_lower_is_seen_in_time() {
    let world = World::new();
    let mut latch = Latch::new(&world.client(0).await, "l");
    latch.set(3).await;
    let mut call = latch.wait(None).await;
    call.expect_waiting(3).await;
    world.redis(&["DECRBY", "l", "1"]);
    let begun = Instant::now();
    call.expect_waiting(2).await;
    assert!(begun.elapsed() < millis(1300));
    // Redisson publishes 0 when it has deleted the key.
    world.redis(&["DEL", "l"]);
    let begun = Instant::now();
    world.redis(&["PUBLISH", &keys::latch_channel("l"), "0"]);
    call.expect_opened().await;
    assert!(begun.elapsed() < millis(50));
}

#[tokio::test(start_paused = true)]
async fn counting_down_is_repeated_safely_and_never_below_zero() {
    let (_world, client) = World::with_client().await;
    let mut latch = Latch::new(&client, "l");
    let below = latch.count_down(1).await.unwrap_err();
    expect_status(&below, Code::FailedPrecondition, "COUNT_EXCEEDED");
    latch.set(3).await;
    for _ in 0..3 {
        assert_eq!(latch.count_down_as(2, "r1").await.unwrap(), 1);
    }
    assert_eq!(refusal(latch.count_down(2).await), "COUNT_EXCEEDED");
    assert_eq!(latch.describe().await.count, 1);
    assert_eq!(refusal(latch.count_down(0).await), "INVALID_BY");
    let none = pb::SetCountRequest::named("m");
    assert_eq!(refusal(latch.api.set_count(none).await), "INVALID_COUNT");
    let short = pb::SetCountRequest {
        name: "m".to_owned(),
        count: 1,
        ttl: Some(proto(millis(1))),
        ..Default::default()
    };
    assert_eq!(refusal(latch.api.set_count(short).await), "INVALID_TTL");
    // One name, two kinds.
    let permits = pb::SetPermitsRequest {
        name: "l".to_owned(),
        permits: 1,
        only_if_absent: false,
    };
    let mut semaphore = Semaphore::new(&client, "s");
    let wrong = semaphore.api.set_permits(permits).await.unwrap_err();
    assert_eq!(reason(&wrong), "WRONG_KIND");
    semaphore.set(1).await;
    let mut wrong = Latch::new(&client, "s");
    assert_eq!(refusal(wrong.count_down(1).await), "WRONG_KIND");
}

#[tokio::test(start_paused = true)]
async fn latches_on_a_sessions_stream() {
    let (world, mut client) = World::with_client().await;
    let mut latch = Latch::new(&client, "l");
    latch.set(1).await;
    let mut session = client.open().await;
    let ask = |request| Request::AwaitLatch(request);
    let request = pb::AwaitLatchRequest::named("l");
    let cancelled = session.send(ask(request.clone()));
    let told = session.answer(cancelled).await;
    assert!(matches!(told, Response::WaitingForLatch(_)), "{told:?}");
    session.send_as(cancelled, Request::Cancel(pb::CancelOperation {}));
    let ended = expect!(session.answer(cancelled).await, Response::LatchNotOpened);
    assert_eq!(ended.reason(), pb::NotGrantedReason::Cancelled);
    let waits = session.send(ask(request));
    session.answer(waits).await;
    let down = session.send(Request::CountDown(
        pb::CountDownRequest::named("l").count_by(1),
    ));
    let left = session.answer(down).await;
    assert!(matches!(left, Response::CountedDown(_)), "{left:?}");
    let opened = session.answer(waits).await;
    assert!(matches!(opened, Response::LatchOpened(_)), "{opened:?}");
    session.close().await.unwrap();
    world.expect_nothing_left(&["l"]).await;
}
