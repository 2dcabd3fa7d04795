//! The queue of a fair lock as both sides see it: who leaves it, and who is shown in it.

use futures::future::join_all;
use lockkeeper_api::pb::LockMode;
use tokio::time::Instant;

use crate::{
    agent::{Told, Version},
    fair::{CHANNELS, DEAD_HEAD_MAX, NAME, until_queued},
    redisson::Kind,
    world::{PROMPT, World, measured, millis, secs},
};

#[tokio::test]
async fn whoever_stops_waiting_leaves_the_queue() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut holder = world.ours(Kind::Fair, NAME).await;
    holder.acquire().await;

    let impatient = java.try_lock(Kind::Fair, NAME, millis(700));
    until_queued(&world, 1).await;
    let mut cancelled = world.ours(Kind::Fair, NAME).await;
    cancelled.wait().await;
    until_queued(&world, 2).await;
    let mut next = world.ours(Kind::Fair, NAME).await;
    let op_id = next.wait().await;
    until_queued(&world, 3).await;
    assert!(!impatient.yes().await);
    until_queued(&world, 2).await;
    drop(cancelled);
    until_queued(&world, 1).await;
    let released = Instant::now();
    holder.release().await;
    next.granted(op_id).await;
    assert!(released.elapsed() < PROMPT, "{:?}", released.elapsed());
    until_queued(&world, 0).await;
}

#[tokio::test]
async fn a_crowd_of_java_threads_that_leaves_does_not_hold_us_up() {
    let world = World::without_polls(Version::Current).await;
    let redisson = world.redisson().await;
    let mut holder = world.ours(Kind::Fair, NAME).await;
    holder.acquire().await;
    let mut leaving = Vec::new();
    for number in 0..8 {
        let thread = redisson.thread(&number.to_string());
        leaving.push(thread.try_lock(Kind::Fair, NAME, millis(1500)));
        until_queued(&world, number + 1).await;
    }
    let mut next = world.ours(Kind::Fair, NAME).await;
    let op_id = next.wait().await;
    for answer in join_all(leaving.into_iter().map(Told::answer)).await {
        assert_eq!(answer.as_deref(), Ok("no"));
    }
    until_queued(&world, 1).await;
    holder.release().await;
    assert_eq!(next.granted(op_id).await.hold_count, 1);
}

/// Redisson forgets to take such a waiter out of the queue.
#[tokio::test]
async fn a_java_thread_that_is_interrupted_delays_the_next_for_seconds() {
    let world = World::start(Version::Current).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut holder = world.ours(Kind::Fair, NAME).await;
    holder.acquire().await;
    let interrupted = java.try_lock(Kind::Fair, NAME, secs(60));
    until_queued(&world, 1).await;
    world.until_listening(CHANNELS, 1).await;
    let mut next = world.ours(Kind::Fair, NAME).await;
    let op_id = next.wait().await;
    until_queued(&world, 2).await;
    java.tell(&["interrupt"]).value().await;
    assert_eq!(interrupted.exception().await, "InterruptedException");
    let released = Instant::now();
    holder.release().await;
    next.granted(op_id).await;
    measured("an interrupted head", released.elapsed());
    assert!(
        released.elapsed() < DEAD_HEAD_MAX,
        "{:?}",
        released.elapsed()
    );
}

#[tokio::test]
async fn a_description_shows_all_who_hold_and_wait() {
    let world = World::with(Version::Current, 2, |settings| settings).await;
    let redisson = world.redisson().await;
    let (java, other) = (redisson.thread("a"), redisson.thread("b"));
    java.lock(Kind::Fair, NAME).value().await;
    let mut first = world.ours_at(0, Kind::Fair, NAME, None).await;
    let first_op = first.wait().await;
    until_queued(&world, 1).await;
    let second = other.lock(Kind::Fair, NAME);
    until_queued(&world, 2).await;
    let mut third = world.ours_at(1, Kind::Fair, NAME, None).await;
    let op_id = third.wait().await;
    until_queued(&world, 3).await;

    for coordinator in &world.coordinators {
        let seen = coordinator.client().await.describe(NAME).await;
        assert_eq!((seen.holder_count, seen.waiter_count), (1, 3));
        let holder = &seen.holders[0];
        assert_eq!(holder.hold_count, 1);
        // The number of a thread.
        assert!(holder.owner.parse::<u64>().is_ok(), "{}", holder.owner);
        let waiters = seen.waiters.iter();
        let places: Vec<_> = waiters.clone().map(|waiter| waiter.position).collect();
        assert_eq!(places, [1, 2, 3]);
        assert!(
            waiters
                .clone()
                .all(|waiter| waiter.mode() == LockMode::Fair)
        );
        let threads: Vec<_> = waiters
            .map(|waiter| waiter.session_digest == holder.session_digest)
            .collect();
        assert_eq!(threads, [false, true, false]);
    }
    java.unlock(Kind::Fair, NAME).value().await;
    first.granted(first_op).await;
    first.release().await;
    second.value().await;
    other.unlock(Kind::Fair, NAME).value().await;
    third.granted(op_id).await;
}
