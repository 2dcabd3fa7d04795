//! What holds for every kind of lock: the stories are the same, told once, and `kinds.rs` tells
//! them of each pair.

use std::time::Duration;

use lockkeeper_api::pb::LostReason;
use tokio::time::Instant;

use crate::{
    agent::Version,
    redisson::{Kind, Redisson},
    world::{PROMPT, World, measured, millis, secs, timed, timed_lock},
};

/// How Java holds a lock and how we do, so that the two exclude each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) java: Kind,
    pub(crate) ours: Kind,
}

/// A lease that is over soon, and one that its watchdog has to renew often.
const SHORT: Duration = millis(1500);

/// How long something is held in spite of [`SHORT`].
const LONG: Duration = millis(4000);

/// How long after the end of a lease a waiter may get the lock on a busy machine. Nothing is
/// published then: both sides wait for the time they were told, and ours looks again after a second
/// at the latest.
const HAND_OVER_MAX: Duration = secs(3);

const NAME: &str = "build";

pub(crate) async fn java_holds_and_we_wait(version: Version, pair: Pair) {
    let world = World::without_polls(version).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.ours(pair.ours, NAME).await;
    java.lock(pair.java, NAME).value().await;

    let refused = ours.try_acquire().await;
    assert!(!refused.acquired);
    let left = crate::client::std_duration(refused.holder_remaining_lease);
    assert!(left > secs(15) && left <= secs(30), "{left:?}");
    let op_id = ours.wait().await;
    java.unlock(pair.java, NAME).value().await;
    let unlocked = Instant::now();
    let grant = ours.granted(op_id).await;
    measured("Java's unlock to our grant", unlocked.elapsed());
    assert!(unlocked.elapsed() < PROMPT, "{:?}", unlocked.elapsed());
    assert_eq!(grant.hold_count, 1);
    assert!(!java.try_lock(pair.java, NAME, Duration::ZERO).yes().await);
    assert_eq!(ours.release().await, 0);
}

pub(crate) async fn we_hold_and_java_waits(version: Version, pair: Pair) {
    let world = World::without_polls(version).await;
    let redisson = world.redisson().await;
    let (java, other) = (redisson.thread("a"), redisson.thread("b"));
    let mut ours = world.ours(pair.ours, NAME).await;
    ours.acquire().await;

    assert!(other.is_locked(pair.ours, NAME).yes().await);
    let left = other
        .tell(&["ttl", pair.ours.in_java(), NAME])
        .value()
        .await;
    let left = millis(left.parse().unwrap());
    assert!(left > secs(15) && left <= secs(30), "{left:?}");
    assert!(!other.try_lock(pair.java, NAME, Duration::ZERO).yes().await);
    assert!(!other.try_lock(pair.java, NAME, millis(200)).yes().await);
    let waiting = timed_lock(&world, &java, pair.java, NAME).await;
    let released = Instant::now();
    assert_eq!(ours.release().await, 0);
    let (locked, _) = waiting.await.unwrap();
    measured("our release to Java's lock", locked - released);
    assert!(locked - released < PROMPT, "{:?}", locked - released);
    assert!(!ours.try_acquire().await.acquired);
    assert_eq!(java.holds(pair.java, NAME).value().await, "1");
    java.unlock(pair.java, NAME).value().await;
    assert!(ours.try_acquire().await.acquired);
}

pub(crate) async fn a_name_with_a_hash_tag_is_shared(version: Version, pair: Pair) {
    const TAGGED: &str = "{app}:build";
    let world = World::without_polls(version).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.ours(pair.ours, TAGGED).await;
    java.lock(pair.java, TAGGED).value().await;
    let op_id = ours.wait().await;
    java.unlock(pair.java, TAGGED).value().await;
    let unlocked = Instant::now();
    ours.granted(op_id).await;
    assert!(unlocked.elapsed() < PROMPT, "{:?}", unlocked.elapsed());
    let waiting = timed_lock(&world, &java, pair.java, TAGGED).await;
    let released = Instant::now();
    ours.release().await;
    let (locked, _) = waiting.await.unwrap();
    assert!(locked - released < PROMPT, "{:?}", locked - released);
    java.unlock(pair.java, TAGGED).value().await;
    assert_eq!(world.redis.lease_left(TAGGED).await, None);
}

pub(crate) async fn either_side_takes_it_again(version: Version, pair: Pair) {
    let world = World::without_polls(version).await;
    let redisson = world.redisson().await;
    let (java, other) = (redisson.thread("a"), redisson.thread("b"));
    let mut ours = world.ours(pair.ours, NAME).await;
    java.lock(pair.java, NAME).value().await;
    java.lock(pair.java, NAME).value().await;
    assert_eq!(java.holds(pair.java, NAME).value().await, "2");
    let op_id = ours.wait().await;
    java.unlock(pair.java, NAME).value().await;
    assert_eq!(java.holds(pair.java, NAME).value().await, "1");
    let mut another = world.ours(pair.ours, NAME).await;
    assert!(!another.try_acquire().await.acquired);
    java.unlock(pair.java, NAME).value().await;
    assert_eq!(ours.granted(op_id).await.hold_count, 1);

    assert_eq!(ours.acquire().await.hold_count, 2);
    let waiting = timed_lock(&world, &java, pair.java, NAME).await;
    assert_eq!(ours.release().await, 1);
    assert!(!other.try_lock(pair.java, NAME, Duration::ZERO).yes().await);
    assert!(!waiting.is_finished());
    assert_eq!(ours.release().await, 0);
    waiting.await.unwrap();
    java.unlock(pair.java, NAME).value().await;
    assert_eq!(world.redis.lease_left(NAME).await, None);
}

pub(crate) async fn javas_lease_ends_and_we_go_on(version: Version, pair: Pair) {
    let world = World::start(version).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.ours(pair.ours, NAME).await;

    let begun = Instant::now();
    java.lock_for(pair.java, NAME, SHORT).value().await;
    let begun = begun..Instant::now();
    let op_id = ours.wait().await;
    ours.granted(op_id).await;
    expect_after_lease("Java's", begun);
    let unlocked = java.unlock(pair.java, NAME).exception().await;
    assert_eq!(unlocked, "IllegalMonitorStateException");
    assert_eq!(ours.release().await, 0);
}

pub(crate) async fn our_lease_ends_and_java_goes_on(version: Version, pair: Pair) {
    let world = World::start(version).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.ours(pair.ours, NAME).await;

    let begun = Instant::now();
    let grant = ours.acquire_for(SHORT).await;
    assert!(!grant.watched);
    let begun = begun..Instant::now();
    java.lock(pair.java, NAME).value().await;
    expect_after_lease("our", begun);
    ours.expect_nothing_to_release().await;
    assert_eq!(java.holds(pair.java, NAME).value().await, "1");
    java.unlock(pair.java, NAME).value().await;
}

/// The instants between which the lease began to count.
fn expect_after_lease(whose: &str, begun: std::ops::Range<Instant>) {
    let now = Instant::now();
    let latest = (begun.end + SHORT).max(now) - (begun.end + SHORT);
    measured(&format!("after the end of {whose} lease"), latest);
    // The store counts in whole milliseconds.
    assert!(now >= begun.start + SHORT - millis(5), "too early");
    assert!(latest < HAND_OVER_MAX, "{latest:?} too late");
}

pub(crate) async fn the_watchdog_of_either_side_keeps_it(version: Version, pair: Pair) {
    let world = World::start(version).await;
    let redisson = Redisson::with_watchdog(version, &world.redis, SHORT).await;
    let (holder, waiter) = (redisson.thread("a"), redisson.thread("b"));
    let mut ours = world.ours_at(0, pair.ours, "ours", Some(SHORT)).await;
    let mut waiting = world.ours(pair.ours, "theirs").await;

    assert!(ours.acquire().await.watched);
    holder.lock(pair.java, "theirs").value().await;
    let op_id = waiting.wait().await;
    let refused = waiter.try_lock(pair.java, "ours", LONG);
    // Time itself is what is tested: without a watchdog the lease would end.
    let granted = timed(async move {
        waiting.granted(op_id).await;
        waiting
    });
    tokio::time::sleep(LONG).await;
    assert!(!granted.is_finished());
    assert!(!refused.yes().await);
    assert_eq!(holder.holds(pair.java, "theirs").value().await, "1");
    holder.unlock(pair.java, "theirs").value().await;
    granted.await.unwrap();
    assert_eq!(ours.release().await, 0);
    assert!(waiter.try_lock(pair.java, "ours", millis(500)).yes().await);
}

pub(crate) async fn a_forced_unlock_is_told_as_lost(version: Version, pair: Pair) {
    let world = World::start(version).await;
    let redisson = world.redisson().await;
    let java = redisson.thread("a");
    let mut ours = world.ours_at(0, pair.ours, NAME, Some(secs(2))).await;
    let mut other = world.ours_at(0, pair.ours, "other", Some(secs(2))).await;

    let grant = ours.acquire().await;
    let taken_over = other.acquire().await;
    assert!(java.force_unlock(pair.ours, NAME).yes().await);
    assert!(java.force_unlock(pair.ours, "other").yes().await);
    java.lock(pair.java, "other").value().await;
    let lost = ours.session.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::Expired);
    assert_eq!(lost.grant.unwrap().fencing_token, grant.fencing_token);
    let lost = other.session.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::TakenOver);
    assert_eq!(lost.grant.unwrap().fencing_token, taken_over.fencing_token);

    ours.expect_nothing_to_release().await;
    other.expect_nothing_to_release().await;
    assert_eq!(java.holds(pair.java, "other").value().await, "1");
    java.unlock(pair.java, "other").value().await;
    assert_eq!(ours.acquire().await.hold_count, 1);
}
