use lockkeeper_access::Quotas;
use lockkeeper_store::script::Mode;

use super::*;
use crate::{
    coordinator::Coordinator,
    multi::request::AcquireAll,
    testing::{
        Fault, MILLI, SECOND, account, acquire_all, config, granted_all, holders, in_session,
        locks, name, open, owner, releases, request_id, settle, start, start_faulty,
    },
    types::Owner,
    watchdog,
};

const BOTH: [(&str, Mode); 2] = [("a", Mode::Exclusive), ("b", Mode::Write)];

async fn are_held(coordinator: &Coordinator) -> bool {
    let [a, b] = ["a", "b"].map(|of| holders(&coordinator.core, of));
    let (a, b) = (a.await, b.await);
    assert_eq!(a, b);
    !a.is_empty()
}

#[tokio::test(start_paused = true)]
async fn an_undo_waits_for_a_later_operation_of_the_owner_on_any_of_the_locks() {
    let (faults, coordinator, _store) = start_faulty(config());
    let request = acquire_all(&BOTH, &owner("x"));
    let delivery = granted_all(&coordinator, &request).await;
    let later = coordinator
        .core
        .owner_lock(&name("b"), &request.owner)
        .await;
    drop(delivery);
    settle().await;
    assert_eq!(faults.calls("multi_undo"), 0);
    assert!(are_held(&coordinator).await);
    drop(later);
    settle().await;
    assert!(!are_held(&coordinator).await);
}

#[tokio::test(start_paused = true)]
async fn without_a_session_an_undo_gives_the_quota_back_only_with_the_locks() {
    let coordinator = start(config());
    coordinator.keep_history();
    let caller = account(Quotas {
        grants: 4,
        ..Quotas::default()
    });
    let counts = |owner: &Owner| {
        let has = |(of, mode)| coordinator.core.sessionless.has(&name(of), mode, owner);
        BOTH.map(has)
    };
    let plain = AcquireAll {
        account: caller,
        ..acquire_all(&BOTH, &owner("x"))
    };
    let delivery = granted_all(&coordinator, &plain).await;
    assert_eq!(counts(&plain.owner), [true; 2]);
    drop(delivery);
    settle().await;
    assert_eq!(counts(&plain.owner), [false; 2]);
    assert_eq!(releases(&coordinator), [0; 2]);
    let repeatable = AcquireAll {
        request_id: request_id("r"),
        ..plain
    };
    let first = granted_all(&coordinator, &repeatable).await;
    let repeat = granted_all(&coordinator, &repeatable).await;
    drop(first);
    settle().await;
    assert!(are_held(&coordinator).await, "the repeat took them over");
    assert_eq!(counts(&repeatable.owner), [true; 2]);
    repeat.take().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_keeps_what_a_repeat_took_over() {
    let coordinator = start(config());
    let opened = open(&coordinator);
    let request = AcquireAll {
        request_id: request_id("r"),
        ..acquire_all(&BOTH, &in_session(&opened, ""))
    };
    let first = granted_all(&coordinator, &request).await;
    let repeat = granted_all(&coordinator, &request).await;
    drop(first);
    settle().await;
    assert!(are_held(&coordinator).await);
    assert_eq!(opened.stream.names(), [name("a"), name("b")]);
    let grants = repeat.take().unwrap();
    assert_eq!(grants.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_an_undo_gives_back_is_not_lost() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = acquire_all(&BOTH, &in_session(&opened, ""));
    let delivery = granted_all(&coordinator, &request).await;
    faults.next("multi_undo", Fault::AnswerTakes(SECOND));
    drop(delivery);
    settle().await;
    assert!(!are_held(&coordinator).await);
    assert_eq!(opened.stream.names().len(), 2, "the answer is on its way");
    watchdog::renew_all(&coordinator.core).await;
    tokio::time::sleep(SECOND).await;
    assert!(opened.stream.names().is_empty());
    assert!(opened.stream.session.state.lock().lost.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_has_nothing_of_what_an_undo_gave_back_whose_answer_was_lost() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = AcquireAll {
        request_id: request_id("r"),
        ..acquire_all(&BOTH, &in_session(&opened, ""))
    };
    let delivery = granted_all(&coordinator, &request).await;
    faults.next("multi_undo", Fault::RunsAfter(MILLI));
    drop(delivery);
    tokio::time::sleep(SECOND).await;
    assert!(!are_held(&coordinator).await);
    assert!(opened.stream.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_its_record_an_undo_takes_back_only_what_no_repeat_can_have_taken() {
    // The record of the attempt, and whether its holds are taken back.
    for (record, is_undone) in [("attempt", true), ("r", false)] {
        let coordinator = start(config());
        let request = acquire_all(&BOTH, &owner("x"));
        granted_all(&coordinator, &request).await.take().unwrap();
        let identity = Identity {
            locks: locks(&BOTH),
            owner: request.owner,
            record: record.to_owned(),
            attempt: "attempt".to_owned(),
            fresh_serial: 1,
        };
        let known = Known {
            holds: Some(0),
            serial: None,
        };
        let (core, known) = (&coordinator.core, [known; 2]);
        let undone = core
            .undo_all(&identity, &known, |_| true, SECOND, None)
            .await;
        assert_eq!(undone, is_undone, "{record}");
        assert_eq!(are_held(&coordinator).await, !is_undone, "{record}");
    }
}

#[tokio::test(start_paused = true)]
async fn others_know_the_end_of_the_lease_of_a_grant_on_its_way() {
    let coordinator = start(config());
    let delivery = granted_all(&coordinator, &acquire_all(&BOTH, &owner("x"))).await;
    let end = delivery.earliest_end();
    assert!(end.is_some() && delivery.holder(1).until >= end);
}
