//! The chain from a lock to the holder that is really waited for.

use lockkeeper_access::{Quotas, Right};

use super::{JOB, explain, holder};
use crate::access::{access, rule};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn the_chain_goes_over_coordinators_and_says_who_why_and_since_when() {
    let world = World::of(3);
    let _idle = holder(&world, 0, "idle", "deploy").await;
    let note = pb::Note {
        reason: "release 1.4".to_owned(),
        ..pb::Note::default()
    };
    let open = pb::OpenSession::default().called("ci-7");
    let mut middle = world.client(1).await.open_with(open).await.unwrap();
    let build = acquire_request("build", JOB).noted(note.clone());
    let op_id = middle.send(Request::Acquire(build));
    middle.expect_granted(op_id).await;
    middle.send_acquire("deploy", JOB);
    tokio::time::sleep(secs(5)).await;
    let mut waiter = holder(&world, 2, "last", "own").await;
    waiter.send_acquire("build", JOB);
    let answer = explain(&mut world.client(2).await, "build").await;
    let names = answer.locks.iter().map(|lock| lock.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["build", "deploy"]);
    assert!(!answer.truncated && answer.deadlocks.is_empty());
    let [build, deploy] = answer.locks.as_slice() else {
        panic!("{answer:?}")
    };
    let held = expect!(build.holders.as_slice(), [held] => held);
    let shown = held.holder.as_ref().unwrap();
    assert_eq!((shown.client_name.as_str(), &*shown.owner), ("ci-7", JOB));
    assert_eq!(shown.note.as_ref(), Some(&note));
    let wait = expect!(held.waits.as_slice(), [wait] => wait);
    assert_eq!((wait.name.as_str(), wait.is_holder), ("deploy", true));
    let waiting_for = std_duration(wait.waiting_for);
    assert!(waiting_for >= secs(5) && waiting_for < secs(6), "{wait:?}");
    assert_eq!(deploy.holders.len(), 1);
    assert!(deploy.holders[0].waits.is_empty());
    // Only the coordinator of the session knows since when it holds the lock.
    let answer = explain(&mut world.client(1).await, "build").await;
    let held_for = std_duration(answer.locks[0].holders[0].held_for);
    assert!(held_for >= secs(5) && held_for < secs(7), "{held_for:?}");
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_and_a_semaphore_are_explained_and_a_latch_is_refused() {
    let (world, mut client, mut session) = World::with_session().await;
    let answer = explain(&mut client, "free").await;
    assert!(answer.locks[0].holders.is_empty() && answer.locks.len() == 1);
    let pool = pb::SetPermitsRequest::named("pool").permits(1);
    let op_id = session.send(Request::SetPermits(pool));
    session.answer(op_id).await;
    let op_id = session.send_acquire_permits("pool", 1);
    session.expect_permits(op_id).await;
    session.acquire("own").await;
    let mut other = holder(&world, 0, "other", "a").await;
    other.send_acquire_permits("pool", 1);
    session.send_acquire("a", "0");
    tokio::time::sleep(secs(2)).await;
    let answer = explain(&mut client, "pool").await;
    let [pool, a] = answer.locks.as_slice() else {
        panic!("{answer:?}")
    };
    assert!(pool.is_semaphore && pool.mode() == LockMode::Unspecified);
    assert_eq!((a.name.as_str(), a.holders[0].waits.len()), ("a", 1));
    assert!(answer.deadlocks.iter().all(|it| it.is_possible));
    world.redis(&["SET", "odd", "x"]);
    let request = pb::ExplainRequest::named("odd");
    let refused = client.api.explain(request).await.unwrap_err();
    expect_status(&refused, Code::FailedPrecondition, "WRONG_KIND");
}

#[tokio::test(start_paused = true)]
async fn names_that_the_caller_may_not_describe_are_hidden() {
    let own = [Right::Acquire, Right::Release, Right::Describe];
    let rules = vec![rule("alice", "", &own), rule("bob", "team-b/", &own)];
    let world = World::with(&Options::with(|it| {
        it.access = access(rules, Quotas::default());
    }));
    let mut alice = world.client_as(0, "alice").await;
    let mut first = alice.open().await;
    let mut second = alice.open().await;
    for (session, name) in [(&mut first, "team-b/x"), (&mut second, "team-a/y")] {
        let op_id = session.send_acquire(name, JOB);
        session.expect_granted(op_id).await;
    }
    first.send_acquire("team-a/y", JOB);
    second.send_acquire("team-b/x", JOB);
    tokio::time::sleep(secs(2)).await;
    let answer = explain(&mut world.client_as(0, "bob").await, "team-b/x").await;
    let lock = expect!(answer.locks.as_slice(), [lock] => lock);
    let wait = expect!(lock.holders[0].waits.as_slice(), [wait] => wait);
    assert!(wait.is_hidden && wait.name.is_empty());
    let deadlock = expect!(answer.deadlocks.as_slice(), [deadlock] => deadlock);
    let names = deadlock.waits.iter().map(|wait| wait.name.as_str());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    assert_eq!(names, ["", "team-b/x"]);
    let text = format!("{answer:?}");
    assert!(!text.contains("team-a"), "{text}");
    assert!(!text.contains(JOB), "owners of others are digests: {text}");
    let answer = explain(&mut alice, "team-b/x").await;
    assert_eq!(answer.locks.len(), 2, "{answer:?}");
}
