//! More grants whose sessions end at once than are released at once.

use lockkeeper_base::tasks::spawn_detached;
use tokio::task::JoinHandle;

use crate::support::prelude::*;

const SESSIONS: usize = 20;
const GRANTS: usize = 10;

/// How many releases there are at the same time.
const AT_ONCE: usize = 64;

/// Ends sessions that hold locks, all at once, on a store that takes a while to answer.
async fn end(world: &World, faults: &Faults) -> Vec<JoinHandle<()>> {
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let mut client = world.client(0).await;
        let mut session = client.open().await;
        for lock in 0..GRANTS {
            session.acquire(&format!("{number}-{lock}")).await;
        }
        sessions.push((client, session));
    }
    faults.set_answer_delay(secs(3));
    let ending = sessions.into_iter().map(|(client, session)| {
        spawn_detached("end", async move {
            session.close().await.unwrap();
            drop(client);
        })
    });
    let ending = ending.collect();
    eventually("the first are released", || async {
        faults.calls("lock_undo") >= AT_ONCE
    })
    .await;
    ending
}

#[tokio::test(start_paused = true)]
async fn they_are_released_so_many_at_a_time_and_slow_ones_do_not_keep_others_waiting() {
    let (faults, world) = World::faulty();
    let ending = end(&world, &faults).await;
    tokio::time::sleep(millis(500)).await;
    assert_eq!(faults.calls("lock_undo"), AT_ONCE);
    tokio::time::sleep(secs(1)).await;
    assert_eq!(faults.calls("lock_undo"), 2 * AT_ONCE);
    for ended in ending {
        ended.await.unwrap();
    }
    assert_eq!(faults.calls("lock_undo"), SESSIONS * GRANTS);
}

#[tokio::test(start_paused = true)]
async fn one_that_ends_behind_many_others_does_not_wait_for_all_of_them() {
    let (faults, world) = World::faulty();
    let (mut client, mut waiter) = (world.client(0).await, world.client(0).await);
    let mut last = client.open().await;
    last.acquire("last").await;
    let mut waiting = waiter.waits(acquire_request("last", "")).await;
    let ending = end(&world, &faults).await;
    faults.set_answer_delay(millis(1));
    last.close().await.unwrap();
    waiting.expect_granted().await;
    let released = faults.calls("lock_undo");
    assert!(released < SESSIONS * GRANTS, "after {released}");
    for ended in ending {
        ended.await.unwrap();
    }
    assert!(waiter.tries(try_request("0-0", "x")).await);
}
