use lockkeeper_access::{Account, Quotas};
use lockkeeper_store::script::Mode;

use super::*;
use crate::{
    lock::{
        renew,
        request::{Acquire, Renew},
    },
    testing::{
        Fault, MILLI, SECOND, account, acquire, config, granted, holders, in_session, name, named,
        open, owner, releases, request_id, settle, start, start_faulty,
    },
    types::{Lease, tests::limits},
    watchdog,
};

/// A request without a session, of a caller that may have one grant.
fn of_one_grant() -> Acquire {
    Acquire {
        account: account(Quotas {
            grants: 1,
            ..Quotas::default()
        }),
        ..acquire("a", Mode::Exclusive, &owner("x"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_nobody_takes_is_given_back_with_its_quota_and_counted() {
    let coordinator = start(config());
    let core = &coordinator.core;
    let request = of_one_grant();
    let delivery = granted(&coordinator, &request).await;
    assert!(!core.has_room(&request.account));
    drop(delivery);
    settle().await;
    assert!(core.has_room(&request.account));
    assert!(holders(core, "a").await.is_empty());
    assert_eq!(core.metrics.orphans.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_hold_that_nobody_takes_leaves_the_first_one_counted() {
    let coordinator = start(config());
    coordinator.keep_history();
    let core = &coordinator.core;
    let request = of_one_grant();
    granted(&coordinator, &request).await.take().unwrap();
    drop(granted(&coordinator, &request).await);
    settle().await;
    assert_eq!(holders(core, "a").await, [("x".to_owned(), 1)]);
    assert!(!core.has_room(&request.account));
    assert_eq!(releases(&coordinator), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_given_back_late_no_longer_counts_either() {
    let coordinator = start(config());
    coordinator.keep_history();
    let core = &coordinator.core;
    let request = of_one_grant();
    let delivery = granted(&coordinator, &request).await;
    // As during a wait for another of several locks.
    tokio::time::sleep(SECOND * 20).await;
    let renew = Renew {
        name: name("a"),
        mode: Mode::Exclusive,
        owner: owner("x"),
        lease: Some(Lease::new(SECOND * 60, &limits()).unwrap()),
    };
    renew::renew(core, &renew).await.unwrap();
    tokio::time::sleep(SECOND * 8).await;
    drop(delivery);
    settle().await;
    assert!(holders(core, "a").await.is_empty());
    assert!(core.has_room(&request.account));
    assert_eq!(releases(&coordinator), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_further_hold_that_is_given_back_without_its_record_leaves_the_first_one() {
    let coordinator = start(config());
    let core = &coordinator.core;
    let request = acquire("a", Mode::Exclusive, &owner("x"));
    granted(&coordinator, &request).await.take().unwrap();
    let delivery = granted(&coordinator, &request).await;
    // The record lives as long as the lease that was requested.
    for _ in 0..2 {
        tokio::time::sleep(SECOND * 20).await;
        let renew = Renew {
            name: name("a"),
            mode: Mode::Exclusive,
            owner: owner("x"),
            lease: None,
        };
        renew::renew(core, &renew).await.unwrap();
    }
    drop(delivery);
    settle().await;
    assert_eq!(holders(core, "a").await, [("x".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_a_resume_released_on_its_way_is_not_delivered() {
    let coordinator = start(config());
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
    let delivery = granted(&coordinator, &request).await;
    let (id, token) = (opened.stream.id(), &opened.resume_token);
    let resumed = coordinator.resume(Account::default(), id, token, named(&[]));
    let _resumed = resumed.await.unwrap();
    settle().await;
    delivery.take().unwrap_err();
    assert!(holders(&coordinator.core, "a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_keeps_what_a_repeat_took_over() {
    let coordinator = start(config());
    let opened = open(&coordinator);
    let request = Acquire {
        request_id: request_id("r"),
        ..acquire("a", Mode::Exclusive, &in_session(&opened, ""))
    };
    let first = granted(&coordinator, &request).await;
    let repeat = granted(&coordinator, &request).await;
    drop(first);
    settle().await;
    assert_eq!(holders(&coordinator.core, "a").await.len(), 1);
    assert_eq!(opened.stream.names(), [name("a")]);
    assert_eq!(repeat.take().unwrap().hold_count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_has_nothing_of_what_an_undo_gave_back_whose_answer_was_lost() {
    let modes = [
        (Mode::Exclusive, "lock_undo"),
        (Mode::Fair, "fair_undo"),
        (Mode::Read, "read_undo"),
        (Mode::Write, "write_undo"),
    ];
    for (mode, undo) in modes {
        let (faults, coordinator, _store) = start_faulty(config());
        let opened = open(&coordinator);
        let plain = acquire("a", mode, &in_session(&opened, ""));
        let request = Acquire {
            request_id: request_id("r"),
            ..plain.clone()
        };
        for holds in [0, 1] {
            if holds == 1 {
                granted(&coordinator, &plain).await.take().unwrap();
            }
            let delivery = granted(&coordinator, &request).await;
            faults.next(undo, Fault::RunsAfter(MILLI));
            drop(delivery);
            tokio::time::sleep(SECOND).await;
            let held = holders(&coordinator.core, "a").await;
            let held: Vec<_> = held.iter().map(|(_, holds)| *holds).collect();
            let known = opened.stream.session.grants();
            let known: Vec<_> = known
                .iter()
                .map(|it| it.lock().unwrap().hold_count)
                .collect();
            assert_eq!(
                (&known, held.iter().sum::<u32>()),
                (&held, holds),
                "{mode:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_repeat_took_over_is_lost_if_an_undo_finds_nothing() {
    let (_faults, coordinator, store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = Acquire {
        request_id: request_id("r"),
        ..acquire("a", Mode::Exclusive, &in_session(&opened, ""))
    };
    let first = granted(&coordinator, &request).await;
    granted(&coordinator, &request).await.take().unwrap();
    store.flush_all();
    drop(first);
    settle().await;
    watchdog::renew_all(&coordinator.core).await;
    assert_eq!(opened.stream.session.state.lock().lost.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_undo_lowers_only_the_grant_that_it_is_about() {
    let coordinator = start(config());
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
    let grant = granted(&coordinator, &request).await.take().unwrap();
    let session = &opened.stream.session;
    let left = |registered, grant: &Grant| {
        let state = session.state.lock();
        let lost = state.grants.get(&GrantKey::of(grant)).unwrap().lost.clone();
        drop(state);
        holds_without(Some(session), registered, grant, &lost)
    };
    let later = Grant {
        serial: grant.serial + 1,
        ..grant.clone()
    };
    // Whether the hold is in the table, and what is left without it.
    let rows = [
        (true, &grant, Some(0)),
        (true, &later, None),
        (false, &grant, Some(1)),
        (false, &later, None),
    ];
    for (registered, grant, expected) in rows {
        assert_eq!(left(registered, grant), expected, "{registered}");
    }
    let confirmed = Lost::default();
    assert_eq!(holds_without(Some(session), true, &grant, &confirmed), None);
    assert_eq!(holds_without(None, true, &later, &confirmed), Some(0));
}
