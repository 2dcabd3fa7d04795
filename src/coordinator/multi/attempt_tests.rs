use lockkeeper_access::{Account, Quotas};
use lockkeeper_store::script::Mode;

use super::*;
use crate::{
    coordinator::Coordinator,
    multi::acquire::acquire_all as acquire_all_of,
    testing::{
        Caller, Fault, SECOND, account, acquire_all, config, granted_all, holders, in_session,
        named, open, owner, request_id, settle, start, start_faulty, two_on_one_store,
    },
    types::{Lease, OnDisconnect, tests::limits},
};

const BOTH: [(&str, Mode); 2] = [("a", Mode::Exclusive), ("b", Mode::Exclusive)];

async fn take(coordinator: &Coordinator, request: &AcquireAll) {
    granted_all(coordinator, request).await.take().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_grant_to_another_shows_what_a_session_has_lost() {
    let (_faults, coordinator, store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = acquire_all(&BOTH, &in_session(&opened, ""));
    take(&coordinator, &own).await;
    settle().await;
    store.flush_all();
    take(&coordinator, &acquire_all(&BOTH, &owner("x"))).await;
    settle().await;
    assert!(opened.stream.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_repeat_is_no_new_grant() {
    let coordinator = start(config());
    let core = &coordinator.core;
    let mut told = core.events.subscribe().unwrap();
    let request = AcquireAll {
        request_id: request_id("r"),
        ..acquire_all(&BOTH, &owner("x"))
    };
    take(&coordinator, &request).await;
    let names = [told.try_recv(), told.try_recv()].map(|event| event.unwrap().name);
    assert_eq!(names.map(|it| it.to_string()), ["a", "b"]);
    take(&coordinator, &request).await;
    assert!(told.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn an_undo_that_arrives_when_its_session_has_moved_leaves_the_locks_to_it() {
    let ran = Fault::RunsAfter(Duration::ZERO);
    // The owner's holds before the attempt, what becomes of it, and whether the coordinator hears
    // that the session has moved.
    for (before, fault, hears) in [
        (0, Fault::RequestLost, false),
        (1, Fault::RequestLost, false),
        (0, ran, false),
        (1, ran, true),
    ] {
        let (faults, [left, there]) = two_on_one_store(hears);
        let opened = open(&left);
        settle().await;
        let own = acquire_all(&BOTH, &in_session(&opened, ""));
        let mut held = Vec::new();
        for _ in 0..before {
            held = granted_all(&left, &own).await.take().unwrap();
        }
        faults.next("multi_acquire", fault);
        // As long as the session needs to move.
        for _ in 0..5 {
            faults.next("multi_undo", Fault::Unavailable);
        }
        let attempted = attempt_all(&left.core, &own, Refusal::Forgotten).await;
        assert!(attempted.is_err());
        let (id, account) = (opened.stream.id().clone(), Account::default());
        let held: Vec<_> = held.iter().collect();
        let resumed = there.resume(account, &id, &opened.resume_token, named(&held));
        let _resumed = resumed.await.unwrap();
        settle().await;
        let again = attempt_all(&there.core, &own, Refusal::Forgotten).await;
        // What an attempt left behind is nobody's.
        let is_granted = match again.unwrap() {
            AttemptedAll::Granted(delivery) => delivery.take().is_ok(),
            AttemptedAll::Busy { .. } => false,
        };
        tokio::time::sleep(SECOND * 5).await;
        let holds = before + u32::from(is_granted);
        for (of, _) in BOTH {
            let seen = holders(&there.core, of).await;
            let count: u32 = seen.iter().map(|(_, holds)| holds).sum();
            assert_eq!(count, holds, "{before} {fault:?} {hears}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_with_a_short_lease_is_taken_back_after_a_longer_absence_of_the_store() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let watched = acquire_all(&BOTH, &in_session(&opened, ""));
    take(&coordinator, &watched).await;
    let short = AcquireAll {
        lease: Some(Lease::new(SECOND, &limits()).unwrap()),
        ..watched
    };
    faults.next("multi_acquire", Fault::RunsAfter(Duration::ZERO));
    for _ in 0..10 {
        faults.next("multi_undo", Fault::Unavailable);
    }
    let attempted = attempt_all(&coordinator.core, &short, Refusal::Forgotten).await;
    assert!(attempted.is_err());
    let begun = Instant::now();
    settle().await;
    assert_eq!(holders(&coordinator.core, "a").await, [("0".to_owned(), 2)]);
    while faults.calls("multi_undo") <= 10 {
        settle().await;
    }
    assert!(begun.elapsed() > SECOND * 2);
    for (of, _) in BOTH {
        assert_eq!(holders(&coordinator.core, of).await, [("0".to_owned(), 1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_a_session_adds_to_its_grants_takes_no_quota() {
    let coordinator = start(config());
    let account = account(Quotas {
        grants: 2,
        ..Quotas::default()
    });
    let opened = coordinator.open(account.clone(), None, String::new(), OnDisconnect::Keep);
    let opened = opened.unwrap();
    let request = AcquireAll {
        account,
        ..acquire_all(&BOTH, &in_session(&opened, ""))
    };
    take(&coordinator, &request).await;
    take(&coordinator, &request).await;
    assert_eq!(holders(&coordinator.core, "a").await, [("0".to_owned(), 2)]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_with_an_unknown_outcome_holds_no_readers_back() {
    let (faults, coordinator, _store) = start_faulty(config());
    let reads = |label| acquire_all(&[("b", Mode::Read)], &owner(label));
    take(&coordinator, &reads("x")).await;
    faults.next("multi_acquire", Fault::RunsAfter(Duration::ZERO));
    let writes = acquire_all(&[("a", Mode::Write), ("b", Mode::Write)], &owner("y"));
    let ended = acquire_all_of(&coordinator.core, &writes, &mut Caller::default()).await;
    assert!(ended.is_err());
    settle().await;
    take(&coordinator, &reads("z")).await;
}
