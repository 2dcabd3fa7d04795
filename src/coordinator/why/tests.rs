//! Deadlocks are looked for among the oldest waits of those who hold something.

use std::collections::BTreeMap;

use lockkeeper_access::{Access, Account, Config, Counted, Identity, Port, Quotas};
use lockkeeper_store::script::{Mode, SharedWaits};
use tokio::time::Instant;

use super::{
    board::{Board, Deadlocked},
    cycle::{Cycle, Link, Sightings, Task, cycle_of},
    explain::explain,
    own::own,
    shared::{read, write},
    wait::{Party, Wait, Waits},
    walk::Walk,
};
use crate::{
    admin::Reason,
    coordinator::Coordinator,
    stream::Opened,
    testing::{self, MILLI, SECOND, acquire, config, granted, name, owner, start, start_faulty},
    types::{Goal, Grant, HolderKnown, Limits, OnDisconnect, Owner, tests::limits},
    waiters::queue::QueueTicket,
};

const EXCLUSIVE: Goal = Goal::Lock(Mode::Exclusive);

/// A coordinator at which many may wait.
fn crowded() -> Coordinator {
    let mut config = config();
    config.limits = Limits {
        sessions_max: 1000,
        waiters_max: 1000,
        waiters_per_lock_max: 1000,
        ..limits()
    };
    start(config)
}

fn grant(owner: &Owner) -> Grant {
    Grant {
        mode: Mode::Read,
        ..testing::grant("own", owner, 1, SECOND * 600)
    }
}

/// An owner that holds something, as far as is remembered.
fn holds(coordinator: &Coordinator, owner: &Owner) {
    let grant = grant(owner);
    coordinator
        .core
        .sessionless
        .hold(&grant, Counted::default());
}

/// A session of this caller that holds something, and an owner of it.
fn holder(coordinator: &Coordinator, account: &Account) -> (Opened, Owner) {
    let keep = OnDisconnect::Keep;
    let opened = coordinator.open(account.clone(), None, String::new(), keep);
    let opened = opened.unwrap();
    let session = &opened.stream.session;
    let owner = Owner::in_session(session.id.clone(), "", &limits()).unwrap();
    let (deadlines, now) = (&coordinator.core.deadlines, Instant::now());
    session
        .register(deadlines, &mut grant(&owner), None, now)
        .unwrap();
    (opened, owner)
}

fn waits(coordinator: &Coordinator, owner: &Owner, account: &Account, goal: Goal) -> QueueTicket {
    let (caller, holder) = ((owner.clone(), account), HolderKnown::default());
    let waiters = &coordinator.core.waiters;
    waiters
        .join(&name("a"), goal, caller, holder, None)
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_old_waits_of_named_owners_that_hold_something_are_shared() {
    let coordinator = crowded();
    let nobody = Account::default();
    let [old, idle, latch, young] = ["old", "idle", "latch", "young"].map(owner);
    let made = Owner::made(&name("a"), None);
    for owner in [&old, &latch, &young, &made] {
        holds(&coordinator, owner);
    }
    let mut tickets = vec![
        waits(&coordinator, &old, &nobody, EXCLUSIVE),
        waits(&coordinator, &old, &nobody, Goal::Permits),
        waits(&coordinator, &idle, &nobody, EXCLUSIVE),
        waits(&coordinator, &latch, &nobody, Goal::Latch),
        waits(&coordinator, &made, &nobody, EXCLUSIVE),
    ];
    tokio::time::advance(SECOND / 2).await;
    tickets.push(waits(&coordinator, &young, &nobody, EXCLUSIVE));
    tokio::time::advance(SECOND / 2).await;
    let own = own(&coordinator.core);
    let shared: Vec<_> = own.parties.values().collect();
    let [party] = shared.as_slice() else {
        panic!("{shared:?}")
    };
    assert_eq!((party.all.len(), party.complete), (2, true));
    assert!(party.all.iter().all(|wait| wait.owner == old));
    assert_eq!((own.left_out, own.waiters.len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn what_is_shared_is_limited_in_all_and_for_each_caller_with_quotas() {
    let quotas = Quotas {
        waiters: 1000,
        ..Quotas::default()
    };
    let config = Config {
        quotas,
        ..Config::default()
    };
    let access = Access::new(config, Port::OPEN).unwrap();
    let busy = access.account(Identity::named("busy"));
    let rows = [
        (busy.clone(), 128, 0),
        (busy, 130, 2),
        (Account::default(), 514, 2),
    ];
    for (account, count, left_out) in rows {
        let coordinator = crowded();
        let mut waiting = Vec::new();
        for _ in 0..count {
            let (opened, owner) = holder(&coordinator, &account);
            let ticket = waits(&coordinator, &owner, &account, EXCLUSIVE);
            waiting.push((opened, ticket));
        }
        tokio::time::advance(SECOND * 2).await;
        let own = own(&coordinator.core);
        assert_eq!(
            (own.left_out, own.parties.len()),
            (left_out, count - left_out)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_party_shares_its_first_waits_and_says_if_there_are_more() {
    for (count, complete) in [(16, true), (17, false)] {
        let (coordinator, nobody) = (crowded(), Account::default());
        let busy = owner("busy");
        holds(&coordinator, &busy);
        let waits = || waits(&coordinator, &busy, &nobody, EXCLUSIVE);
        let _tickets: Vec<_> = (0..count).map(|_| waits()).collect();
        tokio::time::advance(SECOND).await;
        let own = own(&coordinator.core);
        let party = own.parties.values().next().unwrap();
        assert_eq!((party.all.len(), party.complete), (16, complete));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadlock_is_new_once_as_long_as_it_lasts() {
    let board = Board::new();
    let state = |token: u64| vec![((board.coordinator.clone(), 7), (token, 1))];
    let waits = || {
        vec![Deadlocked {
            owner: owner("a"),
            client_name: String::new(),
            name: name("a"),
            since: Instant::now(),
        }]
    };
    assert!(!board.is_deadlock(&state(1)));
    let new = board.name(BTreeMap::from([(state(1), waits())]));
    assert_eq!(new.len(), 1);
    assert!(board.is_deadlock(&state(1)) && !board.is_deadlock(&state(2)));
    let both = BTreeMap::from([(state(1), waits()), (state(2), waits())]);
    let new = board.name(both);
    assert!(new.into_iter().eq([state(2)]));
    assert_eq!(board.deadlocks().len(), 2);
    board.name(BTreeMap::new());
    assert!(!board.is_deadlock(&state(1)) && board.deadlocks().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_walk_looks_up_no_more_than_it_may() {
    let (faults, coordinator, _store) = start_faulty(config());
    let core = &coordinator.core;
    let (own, party) = (core.why.own(), Party::of(&owner("x")));
    for (looks, of_waits, of_locks) in [(0, 0, 0), (1, 1, 0), (2, 1, 1)] {
        let calls = |script| faults.calls(script);
        let before = (calls("waits_look"), calls("lock_inspect"));
        let mut walk = Walk::new(core, &own, looks);
        assert!(walk.waits(&party).await.is_none());
        let is_known = walk.lock(&name("a")).await.unwrap().is_some();
        assert_eq!(is_known, of_locks == 1);
        assert_eq!(calls("waits_look") - before.0, of_waits);
        assert_eq!(calls("lock_inspect") - before.1, of_locks);
        assert!(walk.is_exhausted());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cycle_is_a_deadlock_if_it_was_under_way_after_it_was_seen() {
    let (mut sightings, seen_at) = (Sightings::default(), Instant::now());
    let cycle = |alive_at| Cycle {
        links: Vec::new(),
        is_possible: false,
        alive_at,
    };
    assert!(!sightings.confirm(&cycle(seen_at)));
    tokio::time::advance(SECOND).await;
    assert!(!sightings.confirm(&cycle(seen_at)));
    assert!(sightings.confirm(&cycle(Instant::now())));
}

#[tokio::test(start_paused = true)]
async fn waits_of_another_coordinator_are_all_only_if_each_can_be_read() {
    let wait = |ticket, goal| Wait {
        id: ("there".into(), ticket),
        owner: owner("x"),
        name: name("a"),
        goal,
        since: Instant::now(),
        began: Some(7),
        ends_on_deadlock: false,
    };
    for (goal, complete, expected) in [
        (Goal::Lock(Mode::Write), true, (2, true)),
        (Goal::Lock(Mode::Write), false, (2, false)),
        // Nobody shares a wait for a latch, so it stands for what a newer version may share.
        (Goal::Latch, true, (1, false)),
    ] {
        let waits = Waits {
            client_name: "ci".to_owned(),
            all: vec![wait(1, EXCLUSIVE), wait(2, goal)],
            complete,
            alive_at: Instant::now(),
        };
        let shared = SharedWaits {
            age: MILLI,
            waits: write("there", &waits).into(),
        };
        let read = read(&Party::of(&owner("x")), &shared, Instant::now(), &limits());
        let read = read.unwrap();
        assert_eq!((read.all.len(), read.complete), expected, "{goal:?}");
        assert_eq!(read.alive_at, Instant::now() - MILLI);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cycle_of_more_waits_than_are_followed_is_not_found() {
    for (count, is_found) in [(16, true), (17, false)] {
        let (coordinator, nobody) = (crowded(), Account::default());
        let mut tickets = Vec::new();
        for at in 0..count {
            let (own, next) = (format!("l{at}"), format!("l{}", (at + 1) % count));
            let owner = owner(&format!("w{at}"));
            let request = acquire(&own, Mode::Exclusive, &owner);
            granted(&coordinator, &request).await.take().unwrap();
            let (caller, holder) = ((owner, &nobody), HolderKnown::default());
            let waiters = &coordinator.core.waiters;
            let ticket = waiters.join(&name(&next), EXCLUSIVE, caller, holder, None);
            tickets.push(ticket.unwrap());
        }
        tokio::time::advance(SECOND).await;
        let (core, own) = (&coordinator.core, own(&coordinator.core));
        assert_eq!(own.parties.len(), count);
        let mut walk = Walk::new(core, &own, 1000);
        let cycle = cycle_of(&mut walk, &owner("w0"), Task::Named).await;
        let links = cycle.map(|it| it.links.len());
        assert_eq!(links, is_found.then_some(count));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cycle_that_a_look_has_not_seen_begins_anew() {
    let mut sightings = Sightings::default();
    let cycle = |alive_at| Cycle {
        links: Vec::new(),
        is_possible: false,
        alive_at,
    };
    for is_kept in [true, false] {
        sightings.confirm(&cycle(Instant::now()));
        tokio::time::advance(SECOND).await;
        let state = cycle(Instant::now()).state();
        sightings.keep(&is_kept.then_some(state).into_iter().collect());
        assert_eq!(sightings.confirm(&cycle(Instant::now())), is_kept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_explained_with_those_who_wait_here_and_the_published_waits() {
    let (coordinator, nobody) = (crowded(), Account::default());
    holds(&coordinator, &owner("x"));
    let _waits = waits(&coordinator, &owner("x"), &nobody, EXCLUSIVE);
    tokio::time::advance(SECOND).await;
    let core = &coordinator.core;
    let own = std::sync::Arc::new(own(core));
    core.why.publish(&own);
    let own = core.why.own();
    assert_eq!(own.waiters.len(), 1);
    let mut walk = Walk::new(core, &own, 10);
    let lock = walk.lock(&name("a")).await.unwrap().unwrap();
    assert_eq!((lock.holder_count, lock.waiter_count), (0, 1));
}

/// Two owners that each wait for what the other holds, from now on.
async fn deadlock(coordinator: &Coordinator) -> [QueueTicket; 2] {
    let nobody = Account::default();
    for (of, by) in [("l", "x"), ("m", "y")] {
        let request = acquire(of, Mode::Exclusive, &owner(by));
        granted(coordinator, &request).await.take().unwrap();
    }
    [("m", "x"), ("l", "y")].map(|(of, by)| {
        let (caller, holder) = ((owner(by), &nobody), HolderKnown::default());
        let waiters = &coordinator.core.waiters;
        let ticket = waiters.join(&name(of), EXCLUSIVE, caller, holder, None);
        ticket.unwrap()
    })
}

#[tokio::test(start_paused = true)]
async fn a_deadlock_is_named_soon_and_what_was_shared_of_it_is_taken_back() {
    // Looks are rarer in a crowd.
    for (crowd, at_least, at_most) in [(0, 1_000, 2_000), (4_100, 1_200, 3_000)] {
        let mut config = config();
        config.limits = Limits {
            waiters_max: 10_000,
            waiters_per_lock_max: 10_000,
            ..limits()
        };
        let coordinator = start(config);
        let core = &coordinator.core;
        let nobody = Account::default();
        let crowd: Vec<_> = (0..crowd)
            .map(|_| waits(&coordinator, &owner("n"), &nobody, Goal::Latch))
            .collect();
        tokio::time::sleep(SECOND * 10).await;
        let begun = Instant::now();
        let waits = deadlock(&coordinator).await;
        while core.why.deadlocks().is_empty() && begun.elapsed() < SECOND * 10 {
            tokio::time::sleep(MILLI * 10).await;
        }
        let after = begun.elapsed().as_millis();
        assert!((at_least..=at_most).contains(&after), "{after}");
        let digest = owner("x").digest();
        let shared = || core.scripts.shared_waits(("", &digest));
        assert!(shared().await.unwrap().is_some());
        drop((waits, crowd));
        tokio::time::sleep(SECOND).await;
        assert!(shared().await.unwrap().is_none());
        assert!(core.why.deadlocks().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_explanation_ends_although_a_cycle_is_neither_confirmed_nor_over() {
    let coordinator = crowded();
    let _waits = deadlock(&coordinator).await;
    tokio::time::advance(SECOND).await;
    let own = own(&coordinator.core);
    // Nothing is written anew from here on.
    assert!(coordinator.stop(SECOND).await);
    coordinator.core.why.publish(&std::sync::Arc::new(own));
    tokio::time::advance(SECOND).await;
    let begun = Instant::now();
    let of = name("l");
    let explained = explain(&coordinator.core, &of);
    let explained = tokio::time::timeout(SECOND * 10, explained).await;
    let explained = explained.unwrap().unwrap();
    assert_eq!(explained.locks[0].name, of);
    assert!(explained.deadlocks.is_empty());
    assert_eq!(begun.elapsed(), MILLI * 250 * 5);
}

#[tokio::test(start_paused = true)]
async fn the_youngest_wait_of_a_cycle_is_known_once_the_age_of_all_is() {
    for (began, youngest) in [
        ([Some(1), Some(2)], Some(1)),
        ([Some(2), Some(1)], Some(0)),
        ([Some(1), None], None),
    ] {
        let links = [0, 1].map(|ticket: usize| Link {
            owner: owner("x"),
            client_name: String::new(),
            name: name("a"),
            mode: None,
            since: Instant::now(),
            wait: Wait {
                id: ("here".into(), ticket as u64),
                owner: owner("x"),
                name: name("a"),
                goal: EXCLUSIVE,
                since: Instant::now(),
                began: began[ticket],
                ends_on_deadlock: true,
            },
            hold: (1, 1),
        });
        let cycle = Cycle {
            links: links.into(),
            is_possible: false,
            alive_at: Instant::now(),
        };
        let ticket = cycle.youngest().map(|wait| wait.id.1);
        assert_eq!(ticket, youngest, "{began:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn neither_former_holders_nor_owners_of_the_same_session_are_waited_for() {
    for is_former in [false, true] {
        let coordinator = crowded();
        let (core, _waits) = (&coordinator.core, deadlock(&coordinator).await);
        holds(&coordinator, &owner("x"));
        if is_former {
            let (of, reason) = (name("l"), Reason::parse("why").unwrap());
            let forced = coordinator.force_release(&of, &reason, SECOND * 20);
            assert_eq!(forced.await.unwrap().holder_count, 1);
        }
        let (_opened, waiting) = holder(&coordinator, &Account::default());
        let session = waiting.session.clone().unwrap();
        let holding = Owner::in_session(session, "o", &limits()).unwrap();
        let request = acquire("a", Mode::Exclusive, &holding);
        granted(&coordinator, &request).await.take().unwrap();
        let _wait = waits(&coordinator, &waiting, &Account::default(), EXCLUSIVE);
        tokio::time::advance(SECOND).await;
        let own = own(core);
        assert_eq!(own.parties.len(), 3);
        let mut walk = Walk::new(core, &own, 1000);
        let cycle = cycle_of(&mut walk, &owner("x"), Task::Named).await;
        assert_eq!(cycle.is_none(), is_former);
        let cycle = cycle_of(&mut walk, &waiting, Task::Session).await;
        assert!(cycle.is_none());
    }
}
