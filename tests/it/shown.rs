//! What a coordinator shows to those that run it: its sessions, its waits, deadlocks, what happened
//! last, and whether it is ready.

use std::collections::{HashMap, HashSet};

use lockkeeper_coordinator::{
    Coordinator, Error, LockName, LockSeen, Mode, NameKind, Owner, Ownership, Renew, SessionId,
    SessionShown, Standing, What,
};

use crate::support::prelude::*;

async fn open(client: &mut Client, called: &str) -> Session {
    let open = pb::OpenSession::default().called(called);
    client.open_with(open).await.unwrap()
}

fn shown(coordinator: &Coordinator, client_name: &str) -> SessionShown {
    let sessions = coordinator.list_sessions(0, "").sessions;
    let seen = sessions.iter().find(|it| it.client_name == client_name);
    coordinator.session(&seen.unwrap().digest).unwrap()
}

fn names(of: &[Standing]) -> Vec<(&str, &What)> {
    let of = of.iter().map(|it| (it.event.name.public(), &it.event.what));
    of.collect()
}

#[tokio::test(start_paused = true)]
async fn a_session_is_shown_with_what_it_holds_and_what_it_waits_for() {
    let (world, mut client) = World::with_client().await;
    let coordinator = world.coordinator(0);
    let (mut ci, mut other) = (open(&mut client, "ci").await, open(&mut client, "cd").await);
    other.acquire("held").await;
    let begun = Instant::now();
    ci.acquire("a").await;
    tokio::time::sleep(secs(5)).await;
    ci.acquire("b").await;
    ci.send_acquire("held", "");
    other.send_acquire("a", "");
    world.until_waiting(0, 2).await;

    let ci = shown(coordinator, "ci");
    assert_eq!((ci.seen.grants, ci.seen.waits), (2, 1));
    assert_eq!(
        names(&ci.holdings),
        [("a", &What::Granted), ("b", &What::Granted)]
    );
    assert!(ci.holdings[0].since < begun + secs(1) && ci.holdings[1].since >= begun + secs(5));
    assert!(
        ci.holdings
            .iter()
            .all(|it| it.valid_until > Some(Instant::now() + secs(10)))
    );
    assert_eq!(names(&ci.waits), [("held", &What::WaitBegan)]);
    assert!(ci.waits[0].since >= begun + secs(5) && ci.waits[0].valid_until.is_none());
    let other = shown(coordinator, "cd");
    assert_eq!(names(&other.holdings), [("held", &What::Granted)]);
    assert_eq!(names(&other.waits), [("a", &What::WaitBegan)]);
    assert!(coordinator.session("nobody's").is_none());
}

#[tokio::test(start_paused = true)]
async fn holders_of_some_names_in_some_sessions_are_shown() {
    let (world, mut client) = World::with_client().await;
    let coordinator = world.coordinator(0);
    let (mut ci, mut cd) = (open(&mut client, "ci").await, open(&mut client, "cd").await);
    ci.acquire_as("a", "job").await;
    ci.acquire("ab").await;
    cd.acquire("b").await;
    let digest = shown(coordinator, "ci").seen.digest;
    let names = ["a", "b"].map(|it| LockName::parse(it, coordinator.limits()).unwrap());
    let wanted = HashMap::from([(digest.clone(), HashSet::from(names))]);
    let here = coordinator.holders_here(&wanted);
    let holder = expect!(here.as_slice(), [holder] => holder);
    assert_eq!((holder.name.public(), &*holder.owner.label), ("a", "job"));
    assert_eq!(
        (&*holder.client_name, &holder.session_digest),
        ("ci", &digest)
    );
    assert_eq!(coordinator.client_name(&holder.owner), "ci");
    let elsewhere = Owner::sessionless("job", coordinator.limits()).unwrap();
    assert_eq!(coordinator.client_name(&elsewhere), "");
    assert!(coordinator.holders_here(&HashMap::new()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_without_a_hold_is_told_of_the_lock() {
    let (world, mut client, session) = World::with_session().await;
    let coordinator = world.coordinator(0);
    let limits = coordinator.limits();
    let id = SessionId::parse(&session.id()).unwrap();
    let renew = Renew {
        name: LockName::parse("a", limits).unwrap(),
        mode: Mode::Exclusive,
        owner: Owner::in_session(id, "", limits).unwrap(),
        lease: None,
    };
    let why = async || {
        let refused = coordinator.renew(renew.clone()).await.unwrap_err();
        expect!(refused, Error::NotOwner)
    };
    assert_eq!(why().await, Ownership::NeverHeld);
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    assert_eq!(why().await, Ownership::HeldByAnother);
    client.release("a", "x").await.unwrap();
    assert_eq!(why().await, Ownership::Expired);
}

#[tokio::test(start_paused = true)]
async fn sessions_whose_renewals_fail_are_at_risk_until_the_store_answers_again() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let coordinator = world.coordinator(0);
    let mut sessions = Vec::new();
    for name in ["a", "b"] {
        let mut session = client.open().await;
        session.acquire(name).await;
        sessions.push(session);
    }
    sessions.push(client.open().await);
    assert_eq!(coordinator.sessions_at_risk(), 0);
    faults.set_unavailable(true);
    tokio::time::sleep(secs(12)).await;
    assert_eq!(coordinator.sessions_at_risk(), 2, "the third has no grant");
    faults.set_unavailable(false);
    tokio::time::sleep(secs(3)).await;
    assert_eq!(coordinator.sessions_at_risk(), 0);
}

#[tokio::test(start_paused = true)]
async fn names_that_are_waited_for_are_shown_the_longest_wait_first() {
    let (world, mut client) = World::with_client().await;
    let coordinator = world.coordinator(0);
    let (mut semaphore, mut latch) = (Semaphore::new(&client, "s"), Latch::new(&client, "l"));
    semaphore.set(1).await;
    assert!(semaphore.gets_for("x", 1, secs(60)).await);
    latch.set(1).await;
    for name in ["b", "a"] {
        client.try_acquire(name, "holder", secs(60)).await.unwrap();
    }
    let begun = Instant::now();
    let mut calls = Vec::new();
    for (name, owner) in [("b", "1"), ("a", "2"), ("b", "3")] {
        calls.push(client.waits(acquire_request(name, owner)).await);
        tokio::time::sleep(secs(1)).await;
    }
    let _opening = latch.wait(None).await;
    world.until_waiting(0, 4).await;

    let contended = coordinator.contended();
    let waits = contended
        .iter()
        .map(|it| (it.name.public(), it.kind, it.waiters));
    assert_eq!(
        waits.collect::<Vec<_>>(),
        [
            ("b", NameKind::Lock, 2),
            ("a", NameKind::Lock, 1),
            ("l", NameKind::Latch, 1)
        ]
    );
    assert!(contended[0].since < begun + secs(1) && contended[1].since >= begun + secs(1));
    let owners = |at: usize, max: usize| {
        let waits = coordinator.waits_for(&contended[at], max).into_iter();
        waits
            .map(|it| it.event.owner.label.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(owners(0, 10), ["1", "3"]);
    assert_eq!(owners(0, 1), ["1"], "the first");
    assert_eq!(owners(1, 10), ["2"]);
    let beginning_with_a = coordinator.waited_for("a", 10);
    assert_eq!(beginning_with_a.len(), 1);
    assert_eq!(beginning_with_a[0].1, 1, "not in the store's queue");
}

#[tokio::test(start_paused = true)]
async fn names_are_looked_up_unless_they_are_in_use_no_more() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let coordinator = world.coordinator(0);
    for name in ["a", "b", "c"] {
        client.try_acquire(name, "holder", secs(60)).await.unwrap();
        let short = acquire_request(name, "next").within(secs(1));
        drop(client.waits(short).await);
    }
    let calls = ["a", "b", "c"].map(|name| acquire_request(name, "next").within(secs(1)));
    let mut waiting = Vec::new();
    for call in calls {
        waiting.push(client.waits(call).await);
    }
    let contended = coordinator.contended();
    assert_eq!(contended.len(), 3);
    for mut call in waiting {
        call.expect_timeout().await;
    }
    // One is held, one is free, and one has become a semaphore.
    client.release("b", "holder").await.unwrap();
    client.release("c", "holder").await.unwrap();
    world.redis(&["DEL", "c"]);
    Semaphore::new(&client, "c").set(1).await;
    let seen = coordinator.look_at(&contended).await.unwrap();
    let seen = expect!(seen.as_slice(), [LockSeen::Lock(NameKind::Lock, seen)] => seen);
    assert_eq!((seen.name.public(), seen.holder_count), ("a", 1));
    faults.set_unavailable(true);
    assert!(
        coordinator.look_at(&contended).await.is_err(),
        "nobody knows"
    );
}

#[tokio::test(start_paused = true)]
async fn what_happened_last_is_kept_with_the_client_names_of_ended_sessions() {
    let (world, mut client) = World::with_client().await;
    let coordinator = world.coordinator(0);
    let mut session = open(&mut client, "ci").await;
    session.acquire("before").await;
    assert_eq!(coordinator.last_event(), 0);
    assert!(coordinator.recent().next().is_none());
    coordinator.keep_history();
    for _ in 0..200 {
        session.acquire("a").await;
        session.release("a").await;
    }
    client.take_for("b", "job", secs(60)).await;
    assert_eq!(coordinator.last_event(), 401);
    let recent: Vec<_> = coordinator.recent().collect();
    let numbers = recent.iter().map(|it| it.number);
    assert!(numbers.eq((1..=401).rev()), "newest first");
    let [newest, second, ..] = recent.as_slice() else {
        panic!("{recent:?}")
    };
    assert_eq!(
        (newest.event.name.public(), &*newest.client_name),
        ("b", "")
    );
    assert_eq!(
        (&second.event.what, &*second.client_name),
        (&What::Released, "ci")
    );
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let age = now.checked_sub(u128::from(newest.unix_millis));
    assert!(age.is_some_and(|age| age < 600_000), "{age:?}");
    session.close().await.unwrap();
    eventually("the session has ended", || async {
        coordinator.load().sessions == 0
    })
    .await;
    let second = coordinator.recent().find(|it| it.number == 400).unwrap();
    assert_eq!(second.client_name, "ci", "it is remembered");
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_is_ready_if_its_store_answers_and_takes_writes() {
    let (faults, world) = World::faulty();
    let coordinator = world.coordinator(0);
    assert_eq!(coordinator.default_lease(), secs(30));
    tokio::time::sleep(secs(5)).await;
    assert_eq!(coordinator.up_for(), secs(5));
    assert_eq!(coordinator.ready().await, Ok(()));
    let rejected = |code: &str| HostError::Rejected {
        code: code.to_owned(),
        message: "of the test".to_owned(),
    };
    let rows = [
        (HostError::OutOfMemory, "the store is out of memory"),
        (
            HostError::Unavailable("MISCONF of the test".to_owned()),
            "the store refuses writes: it cannot write to its disk (MISCONF)",
        ),
        (
            HostError::Unavailable("NOREPLICAS of the test".to_owned()),
            "the store is unavailable: NOREPLICAS of the test",
        ),
        (
            HostError::OutcomeUnknown("late".to_owned()),
            "the store did not answer: late",
        ),
        (
            rejected("NOPERM"),
            "the store refuses writes: NOPERM of the test",
        ),
    ];
    for (answer, why) in rows {
        faults.refuse("store_write", Some(answer));
        assert_eq!(coordinator.ready().await, Err(why.to_owned()));
    }
    faults.refuse("store_write", None);
    assert_eq!(coordinator.ready().await, Ok(()));
    faults.set_unavailable(true);
    let why = coordinator.ready().await.unwrap_err();
    assert!(why.starts_with("the store is unavailable: "), "{why}");
}

#[tokio::test(start_paused = true)]
async fn deadlocks_are_shown_as_circles_of_waits() {
    let (world, mut client) = World::with_client().await;
    let coordinator = world.coordinator(0);
    let mut sessions = Vec::new();
    for (name, lock) in [("one", "a"), ("two", "b")] {
        let mut session = open(&mut client, name).await;
        session.acquire_as(lock, "job").await;
        sessions.push(session);
    }
    for (session, lock) in sessions.iter_mut().zip(["b", "a"]) {
        session.send(Request::Acquire(acquire_request(lock, "job")));
    }
    assert!(coordinator.deadlocks().is_empty());
    tokio::time::sleep(secs(3)).await;
    let deadlocks = coordinator.deadlocks();
    let deadlock = expect!(deadlocks.as_slice(), [deadlock] => deadlock);
    let mut waits: Vec<_> = deadlock
        .iter()
        .map(|it| (it.client_name.as_str(), it.name.public()))
        .collect();
    waits.sort_unstable();
    assert_eq!(waits, [("one", "b"), ("two", "a")]);
}
