use lockkeeper_access::Account;

use super::*;
use crate::{
    error::Limit,
    lock::outcome::Tried,
    resume_check::Resumed,
    testing::{
        Fault, SECOND, acquire, config, granted, holders, in_session, open, owner, request_id,
        settle, start, start_faulty, two_on_one_store,
    },
    types::{Lease, Owner, tests::limits},
};

#[tokio::test(start_paused = true)]
async fn only_a_plain_first_hold_of_a_session_names_its_grant() {
    let exclusive = |owner: &Owner| acquire("a", Mode::Exclusive, owner);
    for (which, names_it) in [
        ("plain", true),
        ("id", false),
        ("note", false),
        ("fair", false),
        ("named", false),
    ] {
        let coordinator = start(config());
        let opened = open(&coordinator);
        let own = in_session(&opened, "");
        let request = match which {
            "id" => Acquire {
                request_id: request_id("r"),
                ..exclusive(&own)
            },
            "note" => Acquire {
                note: Some(Arc::default()),
                ..exclusive(&own)
            },
            "fair" => acquire("a", Mode::Fair, &own),
            "named" => exclusive(&owner("x")),
            _ => exclusive(&own),
        };
        let first = granted(&coordinator, &request).await.take().unwrap();
        assert_eq!(first.field.is_some(), names_it, "{which}");
        let again = Acquire {
            request_id: None,
            ..request
        };
        let second = granted(&coordinator, &again).await.take().unwrap();
        assert_eq!(
            (second.hold_count, second.serial),
            (2, first.serial),
            "{which}"
        );
        assert_eq!(second.field, first.field, "{which}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_to_another_shows_what_a_session_has_lost() {
    let (_faults, coordinator, store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
    granted(&coordinator, &own).await.take().unwrap();
    settle().await;
    store.flush_all();
    let other = acquire("a", Mode::Exclusive, &owner("x"));
    granted(&coordinator, &other).await.take().unwrap();
    settle().await;
    assert!(opened.stream.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lock_delay_does_not_fit_a_session_that_gives_its_locks_back() {
    let coordinator = start(config());
    let delay = Some(Box::new(Lease::new(SECOND, &limits()).unwrap()));
    for on_disconnect in [OnDisconnect::Keep, OnDisconnect::Release] {
        let (account, name) = (lockkeeper_access::Account::default(), String::new());
        let opened = coordinator.open(account, None, name, on_disconnect);
        let opened = opened.unwrap();
        for lock_delay in [None, delay.clone()] {
            let fits = lock_delay.is_none() || on_disconnect == OnDisconnect::Keep;
            let request = Acquire {
                lock_delay,
                ..acquire("a", Mode::Exclusive, &in_session(&opened, ""))
            };
            let core = &coordinator.core;
            let attempted = attempt(core, &request, Refusal::Forgotten, None).await;
            assert_eq!(attempted.is_ok(), fits, "{on_disconnect:?}");
        }
        opened.stream.close().await;
        tokio::time::sleep(SECOND * 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_shows_until_when_it_is_held() {
    let coordinator = start(config());
    let held = acquire("a", Mode::Exclusive, &owner("x"));
    granted(&coordinator, &held).await.take().unwrap();
    let other = acquire("a", Mode::Exclusive, &owner("y"));
    let attempted = attempt(&coordinator.core, &other, Refusal::Forgotten, None).await;
    let Attempted::Busy { holder, .. } = attempted.unwrap() else {
        panic!("it is held");
    };
    assert_eq!(holder.until, Some(Instant::now() + SECOND * 30));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_a_store_runs_after_its_lease_is_undone_when_the_store_answers() {
    let (exclusive, fair) = (["lock_acquire", "lock_undo"], ["fair_acquire", "fair_undo"]);
    for (mode, scripts, on_disconnect, stays, left) in [
        (Mode::Exclusive, exclusive, OnDisconnect::Keep, true, 0),
        (Mode::Exclusive, exclusive, OnDisconnect::Keep, false, 0),
        (Mode::Fair, fair, OnDisconnect::Keep, true, 0),
        // The session may come back elsewhere and take the lock again.
        (Mode::Fair, fair, OnDisconnect::Keep, false, 1),
        (Mode::Fair, fair, OnDisconnect::Release, false, 0),
    ] {
        let (faults, coordinator, _store) = start_faulty(config());
        let (account, name) = (Account::default(), String::new());
        let opened = coordinator.open(account, None, name, on_disconnect);
        let opened = opened.unwrap();
        // Frozen for 100 s, with a lease of 30 s. An undo is sent a few times at once, and again
        // when the lease is over, and otherwise each second: 109 times in 100 s.
        faults.next(scripts[0], Fault::RunsAfter(SECOND * 100));
        for _ in 0..110 {
            faults.next(scripts[1], Fault::Unavailable);
        }
        let own = acquire("a", mode, &in_session(&opened, ""));
        let attempted = attempt(&coordinator.core, &own, Refusal::Forgotten, None).await;
        assert!(attempted.is_err());
        tokio::time::sleep(SECOND * 40).await;
        if !stays {
            opened.stream.close().await;
        }
        tokio::time::sleep(SECOND * 60).await;
        settle().await;
        let held = holders(&coordinator.core, "a").await;
        assert_eq!(held.len(), 1, "{mode:?}: it ran late");
        tokio::time::sleep(SECOND * 3).await;
        let held = holders(&coordinator.core, "a").await;
        assert_eq!(held.len(), left, "{mode:?} {on_disconnect:?} {stays}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_undo_that_arrives_when_its_session_has_moved_leaves_the_lock_to_it() {
    for (mode, scripts, hears) in [
        (Mode::Exclusive, ["lock_acquire", "lock_undo"], false),
        (Mode::Read, ["read_acquire", "read_undo"], false),
        (Mode::Fair, ["fair_acquire", "fair_undo"], true),
        (Mode::Write, ["write_acquire", "write_undo"], true),
    ] {
        let (faults, [left, there]) = two_on_one_store(hears);
        let opened = open(&left);
        settle().await;
        faults.next(scripts[0], Fault::RequestLost);
        // As long as the session needs to move.
        for _ in 0..5 {
            faults.next(scripts[1], Fault::Unavailable);
        }
        let own = acquire("a", mode, &in_session(&opened, ""));
        let attempted = attempt(&left.core, &own, Refusal::Forgotten, None).await;
        assert!(attempted.is_err());
        let (id, account) = (opened.stream.id().clone(), Account::default());
        let resumed = there.resume(account, &id, &opened.resume_token, Resumed::default());
        let _resumed = resumed.await.unwrap();
        settle().await;
        granted(&there, &own).await.take().unwrap();
        let before = faults.calls(scripts[1]);
        tokio::time::sleep(SECOND * 5).await;
        assert_eq!(faults.calls(scripts[1]) > before, !hears, "{mode:?}");
        assert_eq!(holders(&there.core, "a").await.len(), 1, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_attempts_do_not_exceed_the_room_of_a_session() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = |of| acquire(of, Mode::Exclusive, &in_session(&opened, ""));
    let names = ["a", "b", "c", "d", "e"];
    let max = limits().grants_per_session_max;
    assert_eq!(max, names.len() - 1);
    for _ in names {
        faults.next("lock_acquire", Fault::AnswerTakes(SECOND));
    }
    let all = names.map(|of| coordinator.try_acquire(request(of)));
    let mut got = Vec::new();
    for tried in futures::future::join_all(all).await {
        match tried {
            Ok(Tried::Acquired(delivery)) => got.push(delivery.take().unwrap()),
            other => assert_eq!(
                other.err(),
                Some(Error::LimitReached(Limit::GrantsPerSession))
            ),
        }
    }
    assert_eq!(got.len(), max);
    settle().await;
    let mut held = 0;
    for of in names {
        held += holders(&coordinator.core, of).await.len();
    }
    assert_eq!(held, max, "what there was no room for is given back");
}
