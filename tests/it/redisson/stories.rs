//! What several of Redisson's test classes assert alike, by mode.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
};

use super::parties::Program;
use crate::support::prelude::*;

pub(super) const NAME: &str = "lock";

/// Tests that are stories, one after the other.
macro_rules! tests {
    ($(#[test] fn $test:ident() = $($story:expr),+;)*) => {
        $(#[tokio::test(start_paused = true)]
        async fn $test() {
            $($story.await;)+
        })*
    };
}
pub(super) use tests;

/// What nobody holds has neither lease nor key.
pub(super) fn is_free(world: &World) -> bool {
    world.redis(&["EXISTS", NAME]) == Value::Int(0)
}

pub(super) async fn try_lock_wait(mode: LockMode) {
    let (_world, one, two) = Program::pair().await;
    one.lock(NAME, mode, "1").lock().await;
    let begun = Instant::now();
    assert!(!two.lock(NAME, mode, "1").try_lock_for(secs(3)).await);
    let waited = begun.elapsed();
    assert!(waited >= secs(3) && waited < millis(3100), "{waited:?}");
}

pub(super) async fn expire(mode: LockMode, other: LockMode) {
    let (_world, one, two) = Program::pair().await;
    let (holder, waiter) = (one.lock(NAME, mode, "1"), two.lock(NAME, other, "1"));
    holder.lock_with(secs(2)).await;
    let begun = Instant::now();
    waiter.lock().await;
    assert!(begun.elapsed() <= millis(2020), "{:?}", begun.elapsed());
    assert_eq!(holder.try_unlock().await, Err("NOT_OWNER".to_owned()));
    assert_eq!(waiter.unlock().await, 0);
}

pub(super) async fn auto_expire(mode: LockMode, other: LockMode) {
    let (_world, one, two) = Program::pair().await;
    one.lock(NAME, mode, "1").lock().await;
    tokio::time::sleep(secs(40)).await;
    one.die();
    let begun = Instant::now();
    assert!(two.lock(NAME, other, "1").try_lock_for(secs(60)).await);
    assert!(begun.elapsed() <= millis(30_020), "{:?}", begun.elapsed());
}

/// Redisson's `forceUnlock` deletes the lock's key; so does this, as we have no such call.
pub(super) async fn force_unlock(mode: LockMode) {
    let (world, mut one, two) = Program::pair().await;
    let (holder, other) = (one.lock(NAME, mode, "1"), two.lock(NAME, mode, "1"));
    holder.lock().await;
    world.redis(&["DEL", NAME]);
    assert!(!holder.is_locked().await && !other.is_locked().await);
    assert!(other.try_lock().await);
    let lost = one.session.expect_lost().await.reason();
    assert_eq!(lost, LostReason::TakenOver);
}

pub(super) async fn get_hold_count(mode: LockMode) {
    let (_world, program) = Program::alone().await;
    let lock = program.lock(NAME, mode, "1");
    assert_eq!(lock.hold_count().await, 0);
    lock.lock().await;
    assert_eq!(lock.hold_count().await, 1);
    assert_eq!(lock.unlock().await, 0);
    assert_eq!(lock.hold_count().await, 0);
    lock.lock().await;
    lock.lock().await;
    assert_eq!(lock.hold_count().await, 2);
    assert_eq!(lock.unlock().await, 1);
    assert_eq!(lock.hold_count().await, 1);
    assert_eq!(lock.unlock().await, 0);
    assert_eq!(lock.hold_count().await, 0);
}

pub(super) async fn is_held_by_current_thread(mode: LockMode) {
    let (_world, program) = Program::alone().await;
    let lock = program.lock(NAME, mode, "1");
    assert_eq!(lock.hold_count().await, 0);
    lock.lock().await;
    assert_eq!(lock.hold_count().await, 1);
    lock.unlock().await;
    assert_eq!(lock.hold_count().await, 0);
}

/// Neither another thread of the same program, nor the thread of the same number in another
/// program.
pub(super) async fn is_held_by_current_thread_other_thread(mode: LockMode) {
    let (_world, one, two) = Program::pair().await;
    one.lock(NAME, mode, "1").lock().await;
    for other in [one.lock(NAME, mode, "2"), two.lock(NAME, mode, "1")] {
        assert_eq!(other.hold_count().await, 0);
        assert_eq!(other.try_unlock().await, Err("NOT_OWNER".to_owned()));
    }
    assert_eq!(one.lock(NAME, mode, "1").hold_count().await, 1);
}

pub(super) async fn is_locked(mode: LockMode) {
    let (_world, program) = Program::alone().await;
    let lock = program.lock(NAME, mode, "1");
    assert!(!lock.is_locked().await);
    lock.lock().await;
    assert!(lock.is_locked().await);
    lock.unlock().await;
    assert!(!lock.is_locked().await);
}

pub(super) async fn is_locked_other_thread(mode: LockMode) {
    let (_world, one, two) = Program::pair().await;
    let lock = one.lock(NAME, mode, "1");
    lock.lock().await;
    for other in [one.lock(NAME, mode, "2"), two.lock(NAME, mode, "1")] {
        assert!(other.is_locked().await);
    }
    lock.unlock().await;
    assert!(!two.lock(NAME, mode, "1").is_locked().await);
}

pub(super) async fn unlock_fail(mode: LockMode) {
    let (_world, program) = Program::alone().await;
    program.lock(NAME, mode, "1").lock().await;
    let other = program.lock(NAME, mode, "2");
    assert_eq!(other.try_unlock().await, Err("NOT_OWNER".to_owned()));
    let never = program.lock("another lock", mode, "1");
    assert_eq!(never.try_unlock().await, Err("NOT_OWNER".to_owned()));
    assert_eq!(program.lock(NAME, mode, "1").unlock().await, 0);
}

pub(super) async fn lock_unlock(mode: LockMode) {
    let (world, program) = Program::alone().await;
    let lock = program.lock(NAME, mode, "1");
    for _ in 0..2 {
        lock.lock().await;
        assert_eq!(lock.unlock().await, 0);
        assert!(is_free(&world));
    }
}

/// `other` is what another thread is refused.
pub(super) async fn reentrancy(mode: LockMode, other: LockMode) {
    let (_world, program) = Program::alone().await;
    let lock = program.lock(NAME, mode, "1");
    assert!(lock.try_lock().await && lock.clone().try_lock().await);
    assert_eq!(lock.unlock().await, 1);
    assert!(!program.lock(NAME, other, "2").try_lock().await);
    assert_eq!(lock.unlock().await, 0);
    assert!(program.lock(NAME, other, "2").try_lock().await);
}

/// Threads of programs at two coordinators take the lock and give it back; unlike in Redisson's
/// tests nobody may be in together with another.
pub(super) async fn concurrency(mode: LockMode, programs: usize, threads: u32, rounds: u32) {
    let world = World::of(2);
    let mut running = Vec::new();
    for number in 0..programs {
        running.push(Program::start_at(&world, number % 2).await);
    }
    let (entered, inside) = (AtomicU32::new(0), Cell::new(false));
    let all = running.iter().flat_map(|program| {
        let inside = &inside;
        let entered = &entered;
        (0..threads).map(move |thread| async move {
            let lock = program.lock(NAME, mode, &thread.to_string());
            for _ in 0..rounds {
                lock.lock().await;
                assert!(!inside.replace(true), "two at once");
                tokio::task::yield_now().await;
                entered.fetch_add(1, Ordering::Relaxed);
                inside.set(false);
                assert_eq!(lock.unlock().await, 0);
            }
        })
    });
    join_all(all).await;
    let expected = u32::try_from(programs).unwrap() * threads * rounds;
    assert_eq!(entered.into_inner(), expected);
    for program in running {
        program.session.close().await.unwrap();
    }
    world.expect_nothing_left(&[NAME]).await;
}
