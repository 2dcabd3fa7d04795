//! `RedissonSpinLockTest`, as far as it has more than `RedissonLockTest`: calls whose answers come
//! later. Here every call is such a one.

use lockkeeper_api::pb::LockMode::Exclusive;

use super::{parties::Program, stories::NAME};
use crate::support::prelude::*;

/// A lock that is held, its holder, and a frame that asks for it.
async fn asked(wait: Option<Duration>) -> (World, Program, Program, u64) {
    let (world, holder, mut asking) = Program::pair().await;
    holder.lock(NAME, Exclusive, "1").lock().await;
    let request = asking.lock(NAME, Exclusive, "1").request(wait, None);
    let op_id = asking.session.send(Request::Acquire(request));
    (world, holder, asking, op_id)
}

#[tokio::test(start_paused = true)]
async fn try_lock_async() {
    let (_world, holder, mut asking, op_id) = asked(None).await;
    let pending = tokio::time::timeout(secs(100), asking.session.end(op_id)).await;
    assert!(pending.is_err(), "{pending:?}");
    let released = Instant::now();
    holder.lock(NAME, Exclusive, "1").unlock().await;
    asking.session.expect_granted(op_id).await;
    assert!(released.elapsed() < millis(200), "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn timed_try_lock_async() {
    let (_world, holder, mut asking, op_id) = asked(Some(secs(1))).await;
    tokio::time::sleep(millis(500)).await;
    holder.lock(NAME, Exclusive, "1").unlock().await;
    asking.session.expect_granted(op_id).await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_async_wait_time() {
    let (_world, _holder, mut asking, op_id) = asked(Some(secs(1))).await;
    let begun = Instant::now();
    let end = asking.session.end(op_id).await;
    assert!(matches!(end, Response::NotGranted(_)), "{end:?}");
    assert!(
        begun.elapsed() >= secs(1) && begun.elapsed() < millis(1100),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn try_lock_async_failed() {
    let (_world, _holder, mut asking, op_id) = asked(Some(Duration::ZERO)).await;
    let begun = Instant::now();
    let end = asking.session.end(op_id).await;
    assert!(matches!(end, Response::NotGranted(_)), "{end:?}");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn try_lock_async_succeed() {
    let (_world, mut program) = Program::alone().await;
    let request = program
        .lock(NAME, Exclusive, "1")
        .request(Some(Duration::ZERO), None);
    let op_id = program.session.send(Request::Acquire(request));
    program.session.expect_granted(op_id).await;
}
