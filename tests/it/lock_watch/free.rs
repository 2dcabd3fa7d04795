//! Waiting until a lock is free.

use lockkeeper_api::pb::NotGrantedReason;

use super::{await_free, until_followed};
use crate::support::prelude::*;

fn free(name: &str) -> pb::AwaitFreeRequest {
    pb::AwaitFreeRequest::named(name)
}

#[tokio::test(start_paused = true)]
async fn all_that_wait_on_any_coordinator_are_answered_when_a_lock_is_released() {
    let world = World::of(2);
    let mut clients = [world.client(0).await, world.client(1).await];
    let held = clients[0].try_acquire("a", "x", secs(60)).await.unwrap();
    let mut calls = Vec::new();
    for n in 0..20 {
        let mut call = await_free(&mut clients[n % 2], free("a")).await.unwrap();
        let waiting = call.expect_waiting().await;
        assert_eq!(waiting.position, 0, "it is in no queue");
        assert!(waiting.holder_remaining_lease.is_some());
        calls.push(call);
    }
    until_followed(&world, "a", 2).await;
    let released_at = Instant::now();
    clients[1].release("a", "x").await.unwrap();
    for call in &mut calls {
        let token = call.expect_free().await;
        assert_eq!(token, held.grant.as_ref().unwrap().fencing_token);
    }
    assert!(
        released_at.elapsed() < millis(50),
        "by the message, not by a poll"
    );
    let mut call = await_free(&mut clients[0], free("a")).await.unwrap();
    call.expect_free().await;
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_id_of_an_answered_wait_for_a_free_lock_names_the_next_operation() {
    let (_world, _client, mut session) = World::with_session().await;
    for _ in 0..2 {
        session.send_as(7, Request::AwaitFree(free("a")));
        assert!(matches!(session.end(7).await, Response::LockFree(_)));
    }
    session.send_as(7, Request::Acquire(acquire_request("a", "")));
    session.expect_granted(7).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_free_lock_is_bounded_and_delays_no_waiter() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    let begun = Instant::now();
    for wait in [secs(0), millis(700)] {
        let mut call = await_free(&mut client, free("a").within(wait))
            .await
            .unwrap();
        let ended = call.expect_not_free().await;
        assert_eq!(ended.reason(), NotGrantedReason::WaitTimeout);
        assert!(ended.holder_remaining_lease.is_some());
        assert!(begun.elapsed() >= wait && begun.elapsed() < wait + millis(50));
    }
    let mut free_call = await_free(&mut client, free("a")).await.unwrap();
    free_call.expect_waiting().await;
    let mut next = client.acquire(acquire_request("a", "y")).await.unwrap();
    assert_eq!(
        next.expect_waiting().await.position,
        1,
        "the only one in line"
    );
    until_followed(&world, "a", 1).await;
    client.release("a", "x").await.unwrap();
    next.expect_granted().await;
    let still = tokio::time::timeout(secs(5), free_call.end()).await;
    assert!(still.is_err(), "it passed from holder to waiter: {still:?}");
    client.release("a", "y").await.unwrap();
    free_call.expect_free().await;
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_free_when_it_has_no_holder_in_any_mode() {
    let world = World::of(2);
    let mut clients = [world.client(0).await, world.client(1).await];
    for mode in [LockMode::Fair, LockMode::Read, LockMode::Write] {
        let owners = if mode == LockMode::Read { 2 } else { 1 };
        for owner in &["x", "y"][..owners] {
            let request = try_request("a", owner).lasting(secs(60)).in_mode(mode);
            let tried = clients[0].api.try_acquire(request).await.unwrap();
            assert!(tried.into_inner().acquired, "{mode:?}");
        }
        let mut calls = Vec::new();
        for client in &mut clients {
            let mut call = await_free(client, free("a")).await.unwrap();
            call.expect_waiting().await;
            calls.push(call);
        }
        until_followed(&world, "a", 2).await;
        for owner in &["x", "y"][..owners] {
            let request = pb::ReleaseRequest::named("a").by(*owner).in_mode(mode);
            clients[0].api.release(request).await.unwrap();
        }
        let released_at = Instant::now();
        calls[0].expect_free().await;
        assert!(
            released_at.elapsed() < millis(50),
            "where it was released: {mode:?}"
        );
        // A fair lock without a queue is released without a message.
        calls[1].expect_free().await;
        assert!(released_at.elapsed() < millis(1300), "elsewhere: {mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_free_at_the_end_of_its_lease_and_after_a_forced_release() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(3)).await.unwrap();
    let begun = Instant::now();
    let mut call = await_free(&mut client, free("a")).await.unwrap();
    call.expect_free().await;
    assert!(begun.elapsed() >= secs(3) && begun.elapsed() < millis(3100));
    // Another program holds the lock as Redisson does, and deletes it without a message.
    world.redis(&["HSET", "a", "6fa459ea-ee8a-3ca4-894e-db77e160355e:1", "1"]);
    let mut call = await_free(&mut client, free("a")).await.unwrap();
    let waiting = call.expect_waiting().await;
    assert!(waiting.holder_remaining_lease.is_none());
    world.redis(&["DEL", "a"]);
    let begun = Instant::now();
    call.expect_free().await;
    assert!(begun.elapsed() < millis(1300));
}

#[tokio::test(start_paused = true)]
async fn a_frame_waits_too_and_ends_with_cancel_and_with_its_session() {
    let (world, mut client, mut session) = World::with_session().await;
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    let first = session.send(Request::AwaitFree(free("a")));
    assert!(matches!(session.answer(first).await, Response::Waiting(_)));
    session.send_as(first, Request::Cancel(pb::CancelOperation {}));
    let ended = expect!(session.end(first).await, Response::NotGranted);
    assert_eq!(ended.reason(), NotGrantedReason::Cancelled);
    let second = session.send(Request::AwaitFree(free("a")));
    assert!(matches!(session.answer(second).await, Response::Waiting(_)));
    client.release("a", "x").await.unwrap();
    assert!(matches!(session.end(second).await, Response::LockFree(_)));
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    let request = free("a").of_session(session.id());
    let mut call = await_free(&mut client, request).await.unwrap();
    call.expect_waiting().await;
    session.close().await.unwrap();
    expect_refused(call.end().await, Code::NotFound, "SESSION_NOT_FOUND");
    client.release("a", "x").await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn waits_for_free_locks_are_limited_and_other_kinds_are_refused() {
    let options = Options::with(|it| {
        it.limits.waiters_per_lock_max = 2;
        it.limits.waiters_max = 3;
    });
    let world = World::with(&options);
    let mut client = world.client(0).await;
    let mut calls = Vec::new();
    for (name, refused) in [
        ("a", None),
        ("a", None),
        ("a", Some("WAITERS_PER_LOCK_MAX")),
        ("b", None),
        ("c", Some("WAITERS_MAX")),
    ] {
        client.try_acquire(name, "x", secs(60)).await.unwrap();
        let mut call = await_free(&mut client, free(name)).await.unwrap();
        match refused {
            None => {
                call.expect_waiting().await;
                calls.push(call);
            }
            Some(limit) => {
                expect_refused(call.next().await, Code::ResourceExhausted, limit);
            }
        }
    }
    Semaphore::new(&client, "s").set(3).await;
    let refused = await_free(&mut client, free("s"))
        .await
        .unwrap()
        .next()
        .await;
    expect_refused(refused, Code::FailedPrecondition, "WRONG_KIND");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_free_lock_survives_a_store_that_is_away() {
    let (faults, _world, mut client) = World::faulty_with_client().await;
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    let mut call = await_free(&mut client, free("a")).await.unwrap();
    let mut short = await_free(&mut client, free("a").within(secs(10)))
        .await
        .unwrap();
    call.expect_waiting().await;
    short.expect_waiting().await;
    faults.set_unavailable(true);
    let refused = await_free(&mut client, free("a"))
        .await
        .unwrap()
        .next()
        .await;
    expect_refused(refused, Code::Unavailable, "STORE_UNAVAILABLE");
    expect_refused(short.end().await, Code::Unavailable, "STORE_UNAVAILABLE");
    faults.set_unavailable(false);
    client.release("a", "x").await.unwrap();
    call.expect_free().await;
}
