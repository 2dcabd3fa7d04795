//! A chain says whether it goes on beyond what is listed.

use super::{JOB, explain, holder};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn more_holders_than_are_listed_are_counted() {
    let (world, mut client) = World::with_client().await;
    let mut readers = Vec::new();
    for number in 1..=9 {
        let mut session = client.open().await;
        session.take_in("pages", LockMode::Read).await;
        readers.push(session);
        let answer = explain(&mut client, "pages").await;
        let shown = answer.locks[0].holders.len();
        assert_eq!(shown, number.min(8));
        assert_eq!(answer.truncated, number > 8, "{number}");
    }
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn a_chain_ends_after_sixteen_locks() {
    for locks in [16, 17, 18] {
        let world = World::new();
        let mut sessions = Vec::new();
        for number in 1..=locks {
            let (name, lock) = (format!("ci-{number}"), format!("lock{number}"));
            sessions.push(holder(&world, 0, &name, &lock).await);
        }
        for (at, session) in sessions.iter_mut().enumerate().take(locks - 1) {
            session.send_acquire(&format!("lock{}", at + 2), JOB);
        }
        tokio::time::sleep(secs(3)).await;
        let answer = explain(&mut world.client(0).await, "lock1").await;
        assert_eq!(answer.locks.len(), locks.min(16));
        assert_eq!(answer.truncated, locks > 16, "{locks}");
    }
}

#[tokio::test(start_paused = true)]
async fn more_waits_of_a_holder_than_are_listed_are_said_to_be_there() {
    for waits in [8, 9, 17] {
        let (world, mut client) = World::with_client().await;
        let mut session = holder(&world, 0, "ci", "a").await;
        for number in 0..waits {
            let name = format!("lock{number:02}");
            client.take_for(&name, "holder", secs(600)).await;
            let owner = format!("task-{number}");
            session.send(Request::Acquire(acquire_request(&name, &owner)));
        }
        tokio::time::sleep(secs(3)).await;
        let answer = explain(&mut client, "a").await;
        assert_eq!(answer.locks[0].holders[0].waits.len(), 8);
        assert_eq!(answer.truncated, waits > 8, "{waits}");
    }
}
