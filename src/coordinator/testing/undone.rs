//! Undos and completed releases that come while their session is resumed.

use std::sync::Arc;

use lockkeeper_access::Account;
use lockkeeper_store::script::{Mode, Refusal};

use super::{
    Fault, Faults, MILLI, SECOND, acquire, config, granted, holders, in_session, name, named,
    one_hold, open, settle, start_faulty, two_on_one_store,
};
use crate::{
    coordinator::Coordinator,
    lock::{
        attempt::attempt,
        release::release,
        request::{Acquire, Release},
    },
    stream::Opened,
    types::Grant,
};

const MODES: [(Mode, &str); 4] = [
    (Mode::Exclusive, "lock_acquire"),
    (Mode::Fair, "fair_acquire"),
    (Mode::Read, "read_acquire"),
    (Mode::Write, "write_acquire"),
];

fn one_hold_of(request: &Acquire) -> Release {
    one_hold(request.name.public(), request.mode, &request.owner)
}

/// Resumes a session, whose stream the other coordinator still serves.
async fn resume(at: &Coordinator, opened: &Opened, grants: &[&Grant]) -> Opened {
    let (id, token) = (opened.stream.id(), &opened.resume_token);
    let resumed = at.resume(Account::default(), id, token, named(grants));
    resumed.await.unwrap()
}

/// A session releases one of two holds; the request is lost, and so are the first completions.
async fn release_in_doubt(
    at: &Coordinator,
    faults: &Faults,
    completions: usize,
) -> (Opened, Acquire, Grant) {
    let opened = open(at);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, "o"));
    granted(at, &request).await.take().unwrap();
    let grant = granted(at, &request).await.take().unwrap();
    faults.next("lock_release", Fault::RequestLost);
    for _ in 0..completions {
        faults.next("lock_undo", Fault::Unavailable);
    }
    let released = release(&at.core, &one_hold_of(&request)).await;
    released.unwrap_err();
    (opened, request, grant)
}

fn hold_counts(opened: &Opened) -> Vec<u32> {
    opened.grants.iter().map(|it| it.hold_count).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_a_resume_elsewhere_has_confirmed_is_not_given_back() {
    for (mode, script) in MODES {
        // The answer to the second hold is on its way to this coordinator, or to the client.
        for is_registered in [false, true] {
            let (faults, [left, there]) = two_on_one_store(true);
            settle().await;
            let opened = open(&left);
            let request = acquire("a", mode, &in_session(&opened, "o"));
            let grant = granted(&left, &request).await.take().unwrap();
            if !is_registered {
                faults.next(script, Fault::AnswerTakes(SECOND));
            }
            let (core, again) = (Arc::clone(&left.core), request.clone());
            let mut second = left.core.tasks.spawn("second", async move {
                attempt(&core, &again, Refusal::Forgotten, None).await
            });
            let early = tokio::time::timeout(MILLI, &mut second).await;
            assert_eq!(early.is_ok(), is_registered);
            let resumed = resume(&there, &opened, &[&grant]).await;
            assert_eq!(hold_counts(&resumed), [2], "{mode:?}");
            settle().await;
            drop(early);
            if !is_registered {
                second.await.unwrap().unwrap_err();
            }
            settle().await;
            let held = holders(&there.core, "a").await;
            assert_eq!(held, [("o".to_owned(), 2)], "{mode:?} {is_registered}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_hold_that_no_resume_knows_of_is_given_back() {
    for (mode, _) in MODES {
        let (_faults, [left, there]) = two_on_one_store(true);
        settle().await;
        let opened = open(&left);
        let request = acquire("a", mode, &in_session(&opened, "o"));
        let delivery = granted(&left, &request).await;
        let _resumed = resume(&there, &opened, &[]).await;
        settle().await;
        drop(delivery);
        settle().await;
        assert!(holders(&there.core, "a").await.is_empty(), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_in_doubt_takes_nothing_that_a_resume_has_confirmed() {
    for is_elsewhere in [true, false] {
        let (faults, [left, there]) = two_on_one_store(true);
        settle().await;
        let (opened, request, grant) = release_in_doubt(&left, &faults, 3).await;
        let next = if is_elsewhere { &there } else { &left };
        let (id, token) = (opened.stream.id().clone(), opened.resume_token);
        drop(opened.stream);
        let resumed = next.resume(Account::default(), &id, &token, named(&[&grant]));
        let resumed = resumed.await.unwrap();
        assert_eq!(hold_counts(&resumed), [2]);
        let third = granted(next, &request).await.take().unwrap();
        assert_eq!(third.hold_count, 3);
        tokio::time::sleep(SECOND * 9).await;
        let held = holders(&there.core, "a").await;
        assert_eq!(held, [("o".to_owned(), 3)], "elsewhere: {is_elsewhere}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_in_doubt_is_completed_while_its_session_goes_on() {
    let (faults, coordinator, _store) = start_faulty(config());
    let (_opened, _, _) = release_in_doubt(&coordinator, &faults, 1).await;
    tokio::time::sleep(SECOND).await;
    let held = holders(&coordinator.core, "a").await;
    assert_eq!(held, [("o".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_undo_that_is_not_answered_does_not_keep_its_session_from_being_resumed() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, "o"));
    let grant = granted(&coordinator, &request).await.take().unwrap();
    faults.next("lock_acquire", Fault::RequestLost);
    faults.next("lock_undo", Fault::Unavailable);
    let second = attempt(&coordinator.core, &request, Refusal::Forgotten, None).await;
    second.unwrap_err();
    settle().await;
    let (id, token) = (opened.stream.id().clone(), opened.resume_token);
    drop(opened.stream);
    let resumed = coordinator.resume(Account::default(), &id, &token, named(&[&grant]));
    let resumed = resumed.await.unwrap();
    assert_eq!(hold_counts(&resumed), [1]);
    assert_eq!(resumed.stream.names(), [name("a")]);
}

#[tokio::test(start_paused = true)]
async fn a_release_after_one_that_was_given_up_takes_one_hold() {
    let (faults, coordinator, _store) = start_faulty(config());
    let (opened, request, _) = release_in_doubt(&coordinator, &faults, 1).await;
    settle().await;
    drop(opened.stream);
    tokio::time::sleep(SECOND).await;
    let left = release(&coordinator.core, &one_hold_of(&request)).await;
    assert_eq!(left.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_release_after_an_undo_that_was_given_up_takes_one_hold() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, "o"));
    granted(&coordinator, &request).await.take().unwrap();
    faults.next("lock_acquire", Fault::RunsAfter(std::time::Duration::ZERO));
    faults.next("lock_undo", Fault::Unavailable);
    let second = attempt(&coordinator.core, &request, Refusal::Forgotten, None).await;
    second.unwrap_err();
    settle().await;
    drop(opened.stream);
    tokio::time::sleep(SECOND).await;
    let left = release(&coordinator.core, &one_hold_of(&request)).await;
    assert_eq!(left.unwrap(), 1);
    let held = holders(&coordinator.core, "a").await;
    assert_eq!(held, [("o".to_owned(), 1)]);
}
