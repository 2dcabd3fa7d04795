//! Cycles of owners over coordinators are named.

use super::{JOB, deadlocks_until, explain, holder, ring, watch};
use crate::support::prelude::*;

/// From the last wait to its name.
const NAMED_WITHIN: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn a_cycle_over_two_coordinators_is_named_by_both_within_two_seconds() {
    for count in [2, 3, 5] {
        let world = World::of(2);
        let mut watchers = [watch(&world, 0), watch(&world, 1)];
        let sessions = ring(&world, 2, count).await;
        let until = Instant::now() + NAMED_WITHIN;
        let mut named = Vec::new();
        for watcher in &mut watchers {
            named.extend(deadlocks_until(watcher, until).await);
        }
        named.sort();
        let all: Vec<_> = (0..count).map(|number| format!("lock{number}")).collect();
        assert_eq!(named, all);
        for node in 0..2 {
            let mut client = world.client(node).await;
            let answer = explain(&mut client, "lock0").await;
            let deadlock = expect!(answer.deadlocks.as_slice(), [deadlock] => deadlock);
            assert!(!deadlock.is_possible && !answer.truncated);
            assert_eq!(deadlock.waits.len(), count);
            let clients = deadlock.waits.iter().map(|wait| wait.client_name.as_str());
            let mut clients: Vec<_> = clients.collect();
            clients.sort_unstable();
            let expected: Vec<_> = (0..count).map(|number| format!("ci-{number}")).collect();
            assert_eq!(clients, expected);
        }
        drop(sessions);
    }
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_has_none_of_the_waits_explains_them_too() {
    let world = World::of(3);
    let _sessions = ring(&world, 2, 2).await;
    tokio::time::sleep(secs(3)).await;
    let mut watcher = watch(&world, 2);
    let mut client = world.client(2).await;
    let begun = Instant::now();
    let answer = explain(&mut client, "lock1").await;
    assert!(begun.elapsed() < secs(2), "{:?}", begun.elapsed());
    assert_eq!(answer.deadlocks.len(), 1, "{answer:?}");
    assert!(!answer.deadlocks[0].is_possible);
    let until = Instant::now() + secs(3);
    let named = deadlocks_until(&mut watcher, until).await;
    assert!(named.is_empty(), "the others have named it: {named:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deadlock_through_a_writer_several_locks_and_an_owner_without_a_session_is_named() {
    let world = World::of(2);
    let mut reader = holder(&world, 0, "reader", "own").await;
    reader.send(super::wanting("pages", pb::LockMode::Read));
    let mut writer = holder(&world, 1, "writer", "index").await;
    let mut plain = world.client(1).await;
    plain
        .try_acquire("third", "job-17", secs(60))
        .await
        .unwrap();
    let mut watcher = watch(&world, 0);
    // The writer waits for the reader, the reader for `third`, and its owner for the writer.
    let locks = ["pages", "more"].map(|name| pb::LockSpec {
        name: name.to_owned(),
        mode: pb::LockMode::Write.into(),
    });
    writer.send(Request::AcquireAll(
        pb::AcquireAllRequest::default()
            .of_locks(locks.to_vec())
            .by(JOB),
    ));
    reader.send_acquire("third", JOB);
    let waits = acquire_request("index", "job-17").within(secs(60));
    let _waiting = plain.acquire(waits).await.unwrap();
    let until = Instant::now() + NAMED_WITHIN;
    assert_eq!(deadlocks_until(&mut watcher, until).await, ["third"]);
}

#[tokio::test(start_paused = true)]
async fn a_deadlock_is_named_on_a_quorum() {
    let world = World::over(2, 3);
    let mut watcher = watch(&world, 0);
    let _sessions = ring(&world, 2, 2).await;
    let until = Instant::now() + NAMED_WITHIN;
    assert_eq!(deadlocks_until(&mut watcher, until).await, ["lock1"]);
}

#[tokio::test(start_paused = true)]
async fn a_deadlock_that_has_ended_is_forgotten() {
    let world = World::of(2);
    let mut sessions = ring(&world, 2, 2).await;
    tokio::time::sleep(secs(3)).await;
    let mut first = sessions.remove(0);
    let op_id = first.send(Request::Release(pb::ReleaseRequest::named("lock0").by(JOB)));
    first.answer(op_id).await;
    tokio::time::sleep(secs(1)).await;
    let mut client = world.client(0).await;
    let answer = explain(&mut client, "lock1").await;
    assert!(answer.deadlocks.is_empty(), "{answer:?}");
    assert_eq!(answer.locks.len(), 1, "its holder waits for nothing");
    let held_for = answer.locks[0].holders[0].held_for;
    assert_eq!(held_for, None, "its session is of the other coordinator");
}
