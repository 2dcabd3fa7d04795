//! `RedissonLockTest`.

use lockkeeper_api::pb::LockMode::Exclusive;

use super::{
    parties::Program,
    stories::{self, NAME, is_free},
};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn subscriptions_per_connection() {
    let world = World::new();
    let mut programs = Vec::new();
    for _ in 0..10 {
        programs.push(Program::start(&world).await);
    }
    let jobs = (0..1000).map(|job: usize| {
        let lock =
            programs[job % 10].lock(&format!("lock-{}", job % 5), Exclusive, &job.to_string());
        async move {
            lock.lock().await;
            tokio::time::sleep(millis(1)).await;
            assert_eq!(lock.unlock().await, 0);
        }
    });
    join_all(jobs).await;
    for name in 0..5 {
        let channel = keys::channel(&format!("lock-{name}"));
        world.until_listening(&channel, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn single_pub_sub() {
    let (_world, program) = Program::alone().await;
    let threads = (0..4).map(|thread: usize| {
        let lock = program.lock(["a", "b"][thread % 2], Exclusive, &thread.to_string());
        async move {
            assert!(lock.try_lock_for(millis(100)).await);
            tokio::time::sleep(millis(50)).await;
            lock.unlock().await;
        }
    });
    join_all(threads).await;
}

#[tokio::test(start_paused = true)]
async fn lock_is_not_renewed_after_interrupted_try_lock() {
    let (world, one, two) = Program::pair().await;
    let (holder, waiter) = (
        one.lock(NAME, Exclusive, "1"),
        two.lock(NAME, Exclusive, "1"),
    );
    for released_after in 0..20 {
        holder.lock().await;
        let interrupted = tokio::time::timeout(millis(10), waiter.lock());
        let releasing = async {
            tokio::time::sleep(millis(released_after)).await;
            holder.unlock().await;
        };
        if let (Ok(_), ()) = tokio::join!(interrupted, releasing) {
            waiter.unlock().await;
        }
        tokio::time::sleep(secs(45)).await;
        assert!(
            is_free(&world),
            "interrupted after 10 ms, released after {released_after} ms"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn redis_failed() {
    let (faults, world) = World::faulty();
    let program = Program::start(&world).await;
    let lock = program.lock(NAME, Exclusive, "1");
    faults.set_unavailable(true);
    let refused = lock.acquire(Some(secs(5)), Some(secs(10))).await;
    assert_eq!(refused.unwrap_err(), "STORE_UNAVAILABLE");
    faults.set_unavailable(false);
    assert!(lock.try_lock_for_with(secs(5), secs(10)).await);
}

#[tokio::test(start_paused = true)]
async fn remain_time_to_live_2() {
    let (_world, program) = Program::alone().await;
    let lock = program.lock(NAME, Exclusive, "1");
    for _ in 0..3 {
        lock.lock_with(secs(10)).await;
    }
    assert_eq!((lock.unlock().await, lock.unlock().await), (2, 1));
    let remaining = lock.remaining().await.unwrap();
    assert!(
        remaining > secs(9) && remaining <= secs(10),
        "{remaining:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn remain_time_to_live() {
    let (world, program) = Program::alone().await;
    let lock = program.lock(NAME, Exclusive, "1");
    lock.lock_with(secs(3600)).await;
    let remaining = lock.remaining().await.unwrap();
    assert!(remaining > millis(3_599_990), "{remaining:?}");
    lock.unlock().await;
    assert_eq!(lock.remaining().await, None);
    assert_eq!(world.redis(&["PTTL", NAME]), Value::Int(-2));
    // The lease of one grant is not that of the next.
    lock.lock().await;
    let remaining = lock.remaining().await.unwrap();
    assert!(
        remaining > millis(29_990) && remaining <= secs(30),
        "{remaining:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn concurrency_try_lock_unlock() {
    let (world, program) = Program::alone().await;
    let deadlines = || world.coordinator(0).load().deadlines;
    let threads = (0..16).map(|thread| {
        let lock = program.lock(NAME, Exclusive, &thread.to_string());
        async move {
            for _ in 0..20 {
                assert!(lock.try_lock_for(secs(60)).await);
                assert_eq!(deadlines(), 1, "what is held is watched");
                assert_eq!(lock.unlock().await, 0);
            }
        }
    });
    join_all(threads).await;
    assert_eq!(deadlines(), 0);
}

stories::tests! {
    #[test] fn try_lock_wait() = stories::try_lock_wait(Exclusive);
    #[test] fn force_unlock() = stories::force_unlock(Exclusive);
    #[test] fn expire() = stories::expire(Exclusive, Exclusive);
    #[test] fn auto_expire() = stories::auto_expire(Exclusive, Exclusive);
    #[test] fn get_hold_count() = stories::get_hold_count(Exclusive);
    #[test] fn is_held_by_current_thread_other_thread() =
        stories::is_held_by_current_thread_other_thread(Exclusive);
    #[test] fn is_held_by_current_thread() = stories::is_held_by_current_thread(Exclusive);
    #[test] fn is_locked_other_thread() = stories::is_locked_other_thread(Exclusive);
    #[test] fn is_locked() = stories::is_locked(Exclusive);
    #[test] fn unlock_fail() = stories::unlock_fail(Exclusive);
    #[test] fn lock_unlock() = stories::lock_unlock(Exclusive);
    #[test] fn reentrancy() = stories::reentrancy(Exclusive, Exclusive);
    #[test] fn concurrency_single_instance() = stories::concurrency(Exclusive, 1, 15, 1);
    #[test] fn concurrency_loop_multi_instance() = stories::concurrency(Exclusive, 16, 1, 20);
    #[test] fn concurrency_multi_instance() = stories::concurrency(Exclusive, 100, 1, 1);
}
