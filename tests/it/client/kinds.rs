//! Several locks, permits and latches.

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_client::LockMode;

use super::{acquire, steps, two, until_lost};
use crate::support::secs;

#[tokio::test(start_paused = true)]
async fn several_locks_are_one_guard() {
    let (world, _, session) = two().await;
    let all = session.locks(["b", "a"]).lock("c", LockMode::Read);
    let guard = all.clone().acquire().await.unwrap();
    let names: Vec<_> = guard.grants().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(all.clone().try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();

    let guard = all.try_acquire().await.unwrap().unwrap();
    world.redis(&["DEL", "b"]);
    assert!(until_lost(&guard).await <= secs(11));
    assert!(guard.loss().unwrap().to_string().starts_with("b: lost"));
    drop(guard);
    world.until_answer(&["EXISTS", "a", "c"], 0).await;
    session.close().await.unwrap();
    world.expect_nothing_left(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn permits_are_taken_and_given_back() {
    let (_world, network, session) = two().await;
    let pool = session.semaphore("pool");
    assert!(pool.set_permits_if_absent(3).await.unwrap().created);
    let two = pool.permits(2).acquire().await.unwrap();
    assert_eq!(two.count(), 2);
    assert!(pool.permits(2).try_acquire().await.unwrap().is_none());
    let late = pool.permits(2).wait_timeout(secs(2)).acquire().await;
    assert!(late.unwrap_err().is_busy());

    // The stream breaks; they are named and kept.
    network.cut(0);
    tokio::time::sleep(secs(60)).await;
    assert!(!two.lost().is_cancelled() && two.valid_for() > secs(15));
    assert_eq!(pool.describe().await.unwrap().available, 1);
    two.release().await.unwrap();
    assert_eq!(pool.describe().await.unwrap().available, 3);
}

#[tokio::test(start_paused = true)]
async fn permits_in_doubt_are_not_taken_twice() {
    let (_world, network, session) = two().await;
    let pool = session.semaphore("pool");
    pool.set_permits(3).await.unwrap();
    for step in 0..100 {
        let permits = spawn_detached("acquiring", {
            let pool = pool.clone();
            async move { pool.permits(3).acquire().await.unwrap() }
        });
        steps(step).await;
        network.cut(step % 2);
        let permits = permits.await.unwrap();
        tokio::time::sleep(secs(40)).await;
        assert!(!permits.lost().is_cancelled(), "{step}");
        permits.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn latches_are_counted_down_and_waited_for() {
    let (_world, network, session) = two().await;
    let latch = session.latch("start");
    assert!(latch.set_count(2, None).await.unwrap().set);
    let waiting = spawn_detached("waiting", {
        let latch = latch.clone();
        async move { latch.wait(None).await }
    });
    let refused = latch.wait(Some(secs(1))).await.unwrap_err();
    assert!(refused.is_busy());
    assert_eq!(latch.count_down(1).await.unwrap(), 1);
    network.cut(0);
    assert_eq!(latch.count_down(1).await.unwrap(), 0);
    waiting.await.unwrap().unwrap();
    assert_eq!(latch.describe().await.unwrap().count, 0);
    assert!(!latch.delete().await.unwrap());
    let too_far = latch.count_down(1).await.unwrap_err();
    assert_eq!(too_far.reason().as_deref(), Some("COUNT_EXCEEDED"));
    acquire(&session, "a").await.release().await.unwrap();
}
