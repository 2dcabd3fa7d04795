//! What is no deadlock is not named.

use super::{JOB, deadlocks_until, explain, holder, wanting, watch};
use crate::support::prelude::*;

/// Long enough for each coordinator to look many times.
const LONG: Duration = Duration::from_secs(10);

async fn expect_none(world: &World) {
    let mut watchers = [watch(world, 0), watch(world, 1)];
    let until = Instant::now() + LONG;
    for watcher in &mut watchers {
        let named = deadlocks_until(watcher, until).await;
        assert!(named.is_empty(), "{named:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_chain_whose_last_holder_does_not_wait() {
    let world = World::of(2);
    let _idle = holder(&world, 0, "idle", "a").await;
    let mut next = holder(&world, 1, "next", "b").await;
    next.send_acquire("a", JOB);
    let mut last = holder(&world, 0, "last", "c").await;
    last.send_acquire("b", JOB);
    expect_none(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_held_back_behind_readers() {
    let world = World::of(2);
    let mut reader = holder(&world, 0, "reader", "own").await;
    let op_id = reader.send(wanting("pages", LockMode::Read));
    reader.expect_granted(op_id).await;
    let mut another = holder(&world, 1, "another", "a").await;
    // The writer holds nothing, and holds other readers back for five seconds.
    let mut writer = world.client(0).await.open().await;
    writer.send(wanting("pages", LockMode::Write));
    world.until_waiting(0, 1).await;
    let held_back = another.send(wanting("pages", LockMode::Read));
    reader.send_acquire("a", JOB);
    let mut watchers = [watch(&world, 0), watch(&world, 1)];
    let until = Instant::now() + secs(4);
    for watcher in &mut watchers {
        let named = deadlocks_until(watcher, until).await;
        assert!(named.is_empty(), "{named:?}");
    }
    another.expect_granted(held_back).await;
}

#[tokio::test(start_paused = true)]
async fn a_cycle_of_owners_that_may_be_several_tasks_is_only_possible() {
    // No owner is named; each lock has an owner of its own; an owner waits for two locks.
    for (holds, waits, both) in [("", "", false), ("x", "y", false), ("x", "x", true)] {
        let world = World::of(2);
        let mut sessions = Vec::new();
        for (node, own) in ["a", "b"].into_iter().enumerate() {
            let mut session = world.client(node).await.open().await;
            let op_id = session.send_acquire(own, holds);
            session.expect_granted(op_id).await;
            sessions.push(session);
        }
        let mut plain = world.client(0).await;
        plain.try_acquire("c", "z", secs(60)).await.unwrap();
        for (session, other) in sessions.iter_mut().zip(["b", "a"]) {
            session.send_acquire(other, waits);
            if both {
                session.send_acquire("c", waits);
            }
        }
        expect_none(&world).await;
        let answer = explain(&mut world.client(1).await, "a").await;
        assert!(
            answer.deadlocks.iter().all(|it| it.is_possible) && !answer.deadlocks.is_empty(),
            "{answer:?}"
        );
    }
}

/// The first wait ends before the second begins, at any time beside the looks.
#[tokio::test(start_paused = true)]
async fn a_wait_that_ended_in_between() {
    for end in (1000..2600).step_by(100) {
        let world = World::of(2);
        let mut first = holder(&world, 0, "first", "a").await;
        let mut second = holder(&world, 1, "second", "b").await;
        let wait = acquire_request("b", JOB).within(millis(end));
        let op_id = first.send(Request::Acquire(wait));
        first.end(op_id).await;
        second.send_acquire("a", JOB);
        expect_none(&world).await;
    }
}

/// What a coordinator shared outlives it for a while.
#[tokio::test(start_paused = true)]
async fn a_wait_whose_coordinator_is_gone() {
    let world = World::of(2);
    let mut first = holder(&world, 0, "first", "a").await;
    let mut second = holder(&world, 1, "second", "b").await;
    first.send_acquire("b", JOB);
    tokio::time::sleep(millis(1300)).await;
    assert!(world.coordinator(0).stop(secs(1)).await);
    second.send_acquire("a", JOB);
    let mut watcher = watch(&world, 1);
    let named = deadlocks_until(&mut watcher, Instant::now() + LONG).await;
    assert!(named.is_empty(), "{named:?}");
}
