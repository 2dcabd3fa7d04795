//! Only waits that asked for it are ended by a deadlock, and of those the youngest.

use lockkeeper_api::pb::NotGrantedReason;

use super::{JOB, holder};
use crate::support::prelude::*;

fn wait(name: &str, end_on_deadlock: bool) -> Request {
    Request::Acquire(pb::AcquireRequest {
        end_on_deadlock,
        ..acquire_request(name, JOB)
    })
}

/// Three sessions wait in a ring, the first for the longest time. Those that asked for it end on a
/// deadlock. Returns which has ended within ten seconds.
async fn ended(asked: [bool; 3]) -> Vec<usize> {
    let world = World::of(2);
    let mut sessions = Vec::new();
    for number in 0..3 {
        let held = format!("lock{number}");
        sessions.push(holder(&world, number % 2, "ci", &held).await);
    }
    let mut waits = Vec::new();
    for (number, mut session) in sessions.into_iter().enumerate() {
        let op_id = session.send(wait(&format!("lock{}", (number + 1) % 3), asked[number]));
        waits.push((session, op_id));
        tokio::time::sleep(millis(100)).await;
    }
    let until = Instant::now() + secs(10);
    let mut ended = Vec::new();
    for (number, (session, op_id)) in waits.iter_mut().enumerate() {
        let end = tokio::time::timeout_at(until, session.end(*op_id)).await;
        match end {
            Ok(Response::NotGranted(end)) => {
                assert_eq!(end.reason(), NotGrantedReason::Deadlock);
                ended.push(number);
            }
            Ok(other) => panic!("{other:?}"),
            Err(_) => {}
        }
    }
    ended
}

#[tokio::test(start_paused = true)]
async fn the_youngest_that_asked_is_ended_and_nobody_else() {
    assert_eq!(ended([false, false, false]).await, [0; 0]);
    assert_eq!(ended([true, false, false]).await, [0]);
    assert_eq!(ended([true, true, false]).await, [1]);
    assert_eq!(ended([true, true, true]).await, [2]);
}

#[tokio::test(start_paused = true)]
async fn several_locks_that_asked_are_ended_too_and_the_other_goes_on() {
    let world = World::of(2);
    let mut first = holder(&world, 0, "first", "a").await;
    let mut second = holder(&world, 1, "second", "b").await;
    let locks = ["b", "c"].map(|name| pb::LockSpec {
        name: name.to_owned(),
        ..pb::LockSpec::default()
    });
    let op_id = first.send(Request::AcquireAll(pb::AcquireAllRequest {
        locks: locks.to_vec(),
        owner: JOB.to_owned(),
        end_on_deadlock: true,
        ..pb::AcquireAllRequest::default()
    }));
    let other = second.send(wait("a", false));
    let end = loop {
        match first.answer(op_id).await {
            Response::WaitingForAll(_) => {}
            end => break end,
        }
    };
    let end = expect!(end, Response::NotGranted);
    assert_eq!(end.reason(), NotGrantedReason::Deadlock);
    let release = pb::ReleaseRequest::named("a").by(JOB);
    first.send(Request::Release(release));
    second.expect_granted(other).await;
}
