//! `RedissonFairLockTest`.

mod drift;

use std::cell::RefCell;

use lockkeeper_api::pb::LockMode::Fair;

use super::{
    parties::{Lock, Program},
    stories::{self, NAME},
};
use crate::support::client::Call;
use crate::support::prelude::*;

/// Who waits, as the store has it.
fn queue(world: &World) -> Vec<String> {
    let key = keys::queue(NAME).to_string();
    texts(&world.redis(&["LRANGE", &key, "0", "-1"]))
}

fn texts(list: &Value) -> Vec<String> {
    let items = expect!(list, Value::Array);
    let text = |item: &Value| String::from_utf8(expect!(item, Value::Bytes).to_vec()).unwrap();
    items.iter().map(text).collect()
}

/// A wait that stands in the queue.
async fn begin(client: &mut Client, lock: &Lock, wait: Duration) -> (Call, pb::Waiting) {
    let mut call = client
        .acquire(lock.request(Some(wait), None))
        .await
        .unwrap();
    let waiting = call.expect_waiting().await;
    (call, waiting)
}

#[tokio::test(start_paused = true)]
async fn lease_timeout() {
    let (_world, program) = Program::alone().await;
    let (begun, order) = (Instant::now(), RefCell::new(Vec::new()));
    let threads = (0..8_u32).map(|thread| {
        let (lock, order) = (program.lock(NAME, Fair, &thread.to_string()), &order);
        async move {
            tokio::time::sleep(millis(100) * thread).await;
            assert!(lock.try_lock_for_with(secs(10), secs(1)).await);
            order.borrow_mut().push(thread);
        }
    });
    join_all(threads).await;
    assert!(order.take().into_iter().eq(0..8));
    assert!(begun.elapsed() <= secs(11), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn multiple_locks() {
    let (_world, program) = Program::alone().await;
    let begun = Instant::now();
    let threads = (0..500).map(|thread: u32| {
        let lock = program.lock(NAME, Fair, &thread.to_string());
        async move {
            lock.lock_with(secs(5)).await;
            tokio::time::sleep(millis(200)).await;
            assert_eq!(lock.unlock().await, 0);
        }
    });
    join_all(threads).await;
    assert!(begun.elapsed() < secs(180), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn try_lock_non_delayed() {
    let (_world, one, two) = Program::pair().await;
    let (first, second) = (one.lock(NAME, Fair, "1"), two.lock(NAME, Fair, "1"));
    first.lock().await;
    assert!(!second.try_lock_for(millis(50)).await);
    first.unlock().await;
    assert!(
        second.try_lock_for(Duration::ZERO).await,
        "nothing was left behind"
    );
    second.unlock().await;
    assert!(first.try_lock().await);
}

#[tokio::test(start_paused = true)]
async fn concurrency_multi_instance_ordering() {
    let world = World::of(2);
    let mut programs = Vec::new();
    for number in 0..16 {
        programs.push(Program::start_at(&world, number % 2).await);
    }
    let order = RefCell::new(Vec::new());
    let all = programs.iter().zip(0_u32..).map(|(program, number)| {
        let (lock, order) = (program.lock(NAME, Fair, "1"), &order);
        async move {
            tokio::time::sleep(millis(10) * number).await;
            lock.lock().await;
            order.borrow_mut().push(number);
            tokio::time::sleep(millis(200)).await;
            lock.unlock().await;
        }
    });
    join_all(all).await;
    assert!(order.take().into_iter().eq(0..16));
}

/// There is no mapper: a client gives the name as Redisson's mapper makes it. A hash tag in it is
/// that of the queue too.
#[tokio::test(start_paused = true)]
async fn name_mapper() {
    let (world, program) = Program::alone().await;
    let (one, two) = (
        program.lock("team:{a}:b", Fair, "1"),
        program.lock("team:{a}:b", Fair, "2"),
    );
    one.lock().await;
    let (mut call, _) = begin(&mut program.client.clone(), &two, secs(60)).await;
    let queued = texts(&world.redis(&["LRANGE", "redisson_lock_queue:team:{a}:b", "0", "-1"]));
    assert_eq!(queued, [format!("{}:2", program.session.id())]);
    one.unlock().await;
    call.expect_granted().await;
}

stories::tests! {
    #[test] fn try_lock_wait() = stories::try_lock_wait(Fair);
    // Unlike in Redisson's test, whoever lost the lock is told so.
    #[test] fn expire() = stories::expire(Fair, Fair);
    #[test] fn force_unlock() = stories::force_unlock(Fair);
    #[test] fn auto_expire() = stories::auto_expire(Fair, Fair);
    #[test] fn get_hold_count() = stories::get_hold_count(Fair);
    #[test] fn is_held_by_current_thread_other_thread() =
        stories::is_held_by_current_thread_other_thread(Fair);
    #[test] fn is_held_by_current_thread() = stories::is_held_by_current_thread(Fair);
    #[test] fn is_locked_other_thread() = stories::is_locked_other_thread(Fair);
    #[test] fn is_locked() = stories::is_locked(Fair);
    #[test] fn unlock_fail() = stories::unlock_fail(Fair);
    #[test] fn lock_unlock() = stories::lock_unlock(Fair);
    #[test] fn reentrancy() = stories::reentrancy(Fair, Fair);
    #[test] fn concurrency_single_instance() = stories::concurrency(Fair, 1, 15, 1);
    #[test] fn concurrency_loop_multi_instance() = stories::concurrency(Fair, 16, 1, 20);
    #[test] fn concurrency_multi_instance() = stories::concurrency(Fair, 100, 1, 1);
}
