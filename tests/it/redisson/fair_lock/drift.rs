//! The tests of `RedissonFairLockTest` about the scores in the set of deadlines. Here those belong
//! to waiters of other programs and to coordinators that died; what the tests protect is asserted
//! of ours: places, and who comes next when.

use lockkeeper_api::pb::LockMode::Fair;

use super::{
    super::{parties::Program, stories::NAME},
    begin, queue, texts,
};
use crate::support::prelude::*;

/// No place is kept for longer than a waiter would be given that nobody vouches for.
#[track_caller]
fn expect_no_drift(world: &World) {
    let key = keys::queue_deadlines(NAME).to_string();
    let now: Vec<u64> = texts(&world.redis(&["TIME"]))
        .iter()
        .map(|part| part.parse().unwrap())
        .collect();
    let now = now[0] * 1000 + now[1] / 1000;
    for pair in texts(&world.redis(&["ZRANGE", &key, "0", "-1", "WITHSCORES"])).chunks(2) {
        let deadline: u64 = pair[1].parse().unwrap();
        assert!(deadline <= now + 5000, "{pair:?} at {now}");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_timeout_drift() {
    let (world, program) = Program::alone().await;
    program.lock(NAME, Fair, "holder").lock().await;
    let world = &world;
    let threads = (0..3_u32).map(|thread| {
        let lock = program.lock(NAME, Fair, &thread.to_string());
        async move {
            for _ in 0..100 {
                assert!(!lock.try_lock_for(millis(500)).await);
                expect_no_drift(world);
            }
        }
    });
    join_all(threads).await;
    eventually("nobody is left in the queue", || async {
        queue(world).is_empty()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lock_acquired_timeout_drift() {
    let (world, program) = Program::alone().await;
    let world = &world;
    let threads = (0..3_u32).map(|thread| {
        let lock = program.lock(NAME, Fair, &thread.to_string());
        async move {
            for _ in 0..30 {
                assert!(lock.try_lock_for_with(secs(3), secs(3)).await);
                expect_no_drift(world);
                tokio::time::sleep(millis(100)).await;
                assert_eq!(lock.unlock().await, 0);
            }
        }
    });
    join_all(threads).await;
}

#[tokio::test(start_paused = true)]
async fn first_thread_death_timeout_drift() {
    let (faults, world) = World::one_mortal();
    let (living, mut dying) = (
        Program::start(&world).await,
        Program::start_at(&world, 1).await,
    );
    let holder = living.lock(NAME, Fair, "holder");
    holder.lock().await;
    let dead = dying.lock(NAME, Fair, "dead");
    let (_dead, first) = begin(&mut dying.client, &dead, secs(600)).await;
    let waiting = living.lock(NAME, Fair, "waiting");
    let (mut call, second) = begin(&mut living.client.clone(), &waiting, secs(600)).await;
    assert_eq!((first.position, second.position), (1, 2));
    faults.set_unavailable(true);
    for _ in 0..30 {
        tokio::time::sleep(secs(1)).await;
        expect_no_drift(&world);
    }
    let released = Instant::now();
    holder.unlock().await;
    call.expect_granted().await;
    assert!(
        released.elapsed() < millis(50),
        "it was passed over before: {:?}",
        released.elapsed()
    );
    assert_eq!(queue(&world), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn acquire_failed_timeout_drift_descrete() {
    let (_world, mut program) = Program::alone().await;
    let holder = program.lock(NAME, Fair, "holder");
    holder.lock_with(secs(30)).await;
    let mut calls = Vec::new();
    for (number, wait) in [(1, 600), (2, 10), (3, 600), (4, 600)] {
        let lock = program.lock(NAME, Fair, &number.to_string());
        let (call, waiting) = begin(&mut program.client, &lock, secs(wait)).await;
        assert_eq!(waiting.position, number);
        // Redisson adds five seconds for everybody who stands before.
        let told = std_duration(waiting.holder_remaining_lease);
        assert!(told > millis(29_900) && told <= secs(30), "{told:?}");
        calls.push(call);
    }
    calls[1].expect_timeout().await;
    let moved = calls[2].expect_waiting().await;
    assert_eq!(moved.position, 2);
    let told = std_duration(moved.holder_remaining_lease);
    assert!(told > secs(15) && told <= secs(20), "{told:?}");
    let released = Instant::now();
    assert_eq!(holder.unlock().await, 0);
    calls[0].expect_granted().await;
    assert!(released.elapsed() < millis(50));
}

#[tokio::test(start_paused = true)]
async fn lock_acquired_boolean_timeout_drift_descrete() {
    let (world, program) = Program::alone().await;
    let lock = |thread| program.lock(NAME, Fair, thread);
    assert!(lock("1").try_lock_with(secs(5)).await);
    assert!(!lock("2").try_lock_with(secs(5)).await);
    assert_eq!(queue(&world), [""; 0], "a try does not queue up");
    tokio::time::sleep(millis(5010)).await;
    assert!(lock("3").try_lock_with(secs(5)).await);
    assert!(!lock("2").try_lock_with(secs(5)).await);
}

#[tokio::test(start_paused = true)]
async fn lock_acquired_timeout_drift_descrete() {
    let (world, mut program) = Program::alone().await;
    let holder = program.lock(NAME, Fair, "holder");
    holder.lock().await;
    let mut calls = Vec::new();
    for number in 1..=3 {
        let lock = program.lock(NAME, Fair, &number.to_string());
        let (call, waiting) = begin(&mut program.client, &lock, secs(600)).await;
        assert_eq!(waiting.position, number);
        calls.push(call);
    }
    holder.unlock().await;
    calls[0].expect_granted().await;
    for (call, position) in calls[1..].iter_mut().zip(1..) {
        assert_eq!(call.expect_waiting().await.position, position);
    }
    expect_no_drift(&world);
}

#[tokio::test(start_paused = true)]
async fn abandoned_timeout_drift_descrete() {
    let (faults, world) = World::one_mortal();
    let (living, mut dying) = (
        Program::start(&world).await,
        Program::start_at(&world, 1).await,
    );
    let holder = living.lock(NAME, Fair, "holder");
    holder.lock_with(secs(3)).await;
    let mut abandoned = Vec::new();
    for thread in ["1", "2"] {
        let lock = dying.lock(NAME, Fair, thread);
        abandoned.push(begin(&mut dying.client, &lock, secs(600)).await);
        tokio::time::sleep(millis(100)).await;
    }
    let third = living.lock(NAME, Fair, "3");
    let (mut call, waiting) = begin(&mut living.client.clone(), &third, secs(600)).await;
    assert_eq!(waiting.position, 3);
    faults.set_unavailable(true);
    let cut_off = Instant::now();
    call.expect_granted().await;
    let waited = cut_off.elapsed();
    assert!(waited > secs(2) && waited < millis(7200), "{waited:?}");
}

/// While the store does not answer, a waiter cannot leave the queue; whoever asks next finds it
/// dead.
#[tokio::test(start_paused = true)]
async fn acquire_failed_not_called_on_redis_timeout() {
    for cut_off in [secs(4), secs(30)] {
        let (faults, world) = World::faulty();
        let program = Program::start(&world).await;
        program
            .lock(NAME, Fair, "holder")
            .lock_with(secs(3600))
            .await;
        let waiter = program.lock(NAME, Fair, "waiter");
        let waiting = waiter.acquire(Some(secs(3)), None);
        let failing = async {
            tokio::time::sleep(secs(1)).await;
            faults.set_unavailable(true);
            tokio::time::sleep(cut_off).await;
            faults.set_unavailable(false);
        };
        let (ended, ()) = tokio::join!(waiting, failing);
        assert_eq!(ended.map(drop), Err("STORE_UNAVAILABLE".to_owned()));
        assert!(!program.lock(NAME, Fair, "next").try_lock().await);
        eventually("the queue is empty", || async { queue(&world).is_empty() }).await;
    }
}
