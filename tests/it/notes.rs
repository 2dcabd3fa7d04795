//! Notes: what an owner says of its hold is shown to others for as long as it holds the lock.

use lockkeeper_api::pb::acquire_response;
use lockkeeper_testkit::modes::release;

use crate::support::client::Call;
use crate::support::prelude::*;

fn note(reason: &str) -> pb::Note {
    let labels = [("team".to_owned(), "web".to_owned())];
    pb::Note {
        reason: reason.to_owned(),
        labels: labels.into_iter().collect(),
    }
}

fn acquire(name: &str, owner: &str, reason: &str) -> pb::AcquireRequest {
    acquire_request(name, owner).noted(note(reason))
}

async fn hold(session: &mut Session, request: pb::AcquireRequest) -> pb::Grant {
    let op_id = session.send(Request::Acquire(request));
    session.expect_granted(op_id).await
}

/// The reason of a lock's holder, as `Describe` shows it.
async fn reason_of(client: &mut Client, name: &str) -> Option<String> {
    let described = client.describe(name).await;
    let holder = expect!(described.holders.as_slice(), [holder] => holder);
    holder.note.as_ref().map(|note| note.reason.clone())
}

fn key_exists(world: &World, name: &str) -> bool {
    let key = keys::note(name).to_string();
    world.redis(&["EXISTS", &key]) == Value::Int(1)
}

/// The next message about a wait in which the holder has this reason.
async fn told(call: &mut Call, reason: Option<&str>) {
    loop {
        let note = call.expect_waiting().await.holder_note;
        if note.as_ref().map(|note| note.reason.as_str()) == reason {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_refused_waits_or_looks_reads_the_holders_note() {
    let (world, mut client, mut other) = World::two_with_clients().await;
    let modes = [
        LockMode::Exclusive,
        LockMode::Fair,
        LockMode::Read,
        LockMode::Write,
    ];
    for (number, mode) in modes.into_iter().enumerate() {
        let name = format!("lock{number}");
        // A lock that is held for reading excludes writers only.
        let wanted = match mode {
            LockMode::Read => LockMode::Write,
            mode => mode,
        };
        let mut session = client.open().await;
        let held = acquire(&name, "", "deploy").in_mode(mode);
        hold(&mut session, held).await;
        let expected = Some(note("deploy"));
        let tried = other
            .try_with(try_request(&name, "y").in_mode(wanted))
            .await;
        assert_eq!(tried.unwrap().holder_note, expected, "{mode:?}");
        let waits = acquire_request(&name, "y").in_mode(wanted).within(secs(3));
        let mut call = other.acquire(waits).await.unwrap();
        assert_eq!(call.expect_waiting().await.holder_note, expected);
        let ended = expect!(
            call.end().await.unwrap(),
            acquire_response::Event::NotGranted
        );
        assert_eq!(ended.holder_note, expected, "{mode:?}");
        let described = other.describe(&name).await;
        assert_eq!(described.holders[0].note, expected, "{mode:?}");
        session.close().await.unwrap();
        assert!(other.describe(&name).await.holders.is_empty());
        assert!(!key_exists(&world, &name), "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn several_locks_have_it_and_a_refusal_of_several_shows_it() {
    let (world, mut client) = World::with_client().await;
    for names in [["a", "b"], ["{s}a", "{s}b"]] {
        let locks = names.map(|name| pb::LockSpec {
            name: name.to_owned(),
            ..Default::default()
        });
        let request = pb::TryAcquireAllRequest::default()
            .of_locks(locks.to_vec())
            .by("x");
        let request = request.noted(note("merge"));
        let taken = client.api.try_acquire_all(request.clone()).await.unwrap();
        assert!(taken.into_inner().acquired);
        for name in names {
            assert_eq!(reason_of(&mut client, name).await.as_deref(), Some("merge"));
        }
        let refused = client.api.try_acquire_all(request.by("y")).await.unwrap();
        assert_eq!(refused.into_inner().holder_note, Some(note("merge")));
        for name in names {
            client.release(name, "x").await.unwrap();
        }
    }
    assert!(!key_exists(&world, "a"), "it goes with the lock");
}

#[tokio::test(start_paused = true)]
async fn it_is_renewed_with_its_lock_and_ends_with_its_lease() {
    let world = World::of(2);
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    hold(&mut session, acquire("watched", "", "nightly")).await;
    hold(
        &mut session,
        acquire("leased", "", "short").lasting(secs(10)),
    )
    .await;
    let sessionless = acquire("sessionless", "x", "a script").lasting(secs(10));
    client.granted(sessionless).await;
    tokio::time::sleep(secs(9)).await;
    client.renew("sessionless", "x", secs(100)).await.unwrap();
    tokio::time::sleep(secs(60)).await;
    assert_eq!(
        reason_of(&mut client, "watched").await.as_deref(),
        Some("nightly")
    );
    assert_eq!(
        reason_of(&mut client, "sessionless").await.as_deref(),
        Some("a script")
    );
    assert!(!key_exists(&world, "leased"), "it ends with its lease");
    tokio::time::sleep(secs(50)).await;
    assert!(!key_exists(&world, "sessionless"));
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_leaves_the_next_holder_its_own_note_or_none() {
    let (world, mut client) = World::with_client().await;
    client.granted(acquire("a", "first", "one")).await;
    let mut without = client.waits(acquire_request("a", "without")).await;
    let mut with = client.waits(acquire("a", "with", "three")).await;
    let mut last = client.waits(acquire_request("a", "last")).await;
    world.until_waiting(0, 3).await;
    client.release("a", "first").await.unwrap();
    without.expect_granted().await;
    assert_eq!(reason_of(&mut client, "a").await, None);
    told(&mut with, None).await;
    client.release("a", "without").await.unwrap();
    with.expect_granted().await;
    assert_eq!(reason_of(&mut client, "a").await.as_deref(), Some("three"));
    told(&mut last, Some("three")).await;
    client.release("a", "with").await.unwrap();
    last.expect_granted().await;
    assert_eq!(reason_of(&mut client, "a").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_of_a_fair_lock_reads_the_note_of_each_next_holder_wherever_it_is() {
    let (world, mut client, mut other) = World::two_with_clients().await;
    let fair = |owner, reason| acquire("a", owner, reason).in_mode(LockMode::Fair);
    client.granted(fair("first", "one")).await;
    let mut second = client.waits(fair("second", "two")).await;
    world.until_waiting(0, 1).await;
    let mut third = other.waits(fair("third", "three")).await;
    let first = release("a", "first", LockMode::Fair);
    client.release_with(first).await.unwrap();
    second.expect_granted().await;
    told(&mut third, Some("two")).await;
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_keeps_it_on_another_coordinator() {
    let (world, mut client, mut elsewhere) = World::two_with_clients().await;
    let mut session = client.open().await;
    let mut grants = Vec::new();
    for (name, mode) in [
        ("a", LockMode::Exclusive),
        ("r", LockMode::Read),
        ("w", LockMode::Write),
    ] {
        grants.push(hold(&mut session, acquire(name, "", "index").in_mode(mode)).await);
    }
    client.cut();
    tokio::time::sleep(secs(5)).await;
    let mut resumed = elsewhere.resume(&session.opened, grants).await.unwrap();
    tokio::time::sleep(secs(300)).await;
    for name in ["a", "r", "w"] {
        let reason = reason_of(&mut elsewhere, name).await;
        assert_eq!(reason.as_deref(), Some("index"), "{name}");
    }
    resumed.release("a").await;
    assert!(!key_exists(&world, "a"), "its new coordinator knows of it");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_undone_leaves_none() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    faults.lose_answers("lock_acquire", 1);
    let request = try_request("a", "x").noted(note("deploy"));
    client.try_with(request).await.unwrap_err();
    eventually("it is undone", || async { faults.calls("lock_undo") == 1 }).await;
    assert!(!key_exists(&world, "a"));
}

#[tokio::test(start_paused = true)]
async fn a_note_that_is_too_long_is_refused_and_a_quorum_refuses_all_by_name() {
    let (world, mut client) = World::with_client().await;
    let label = |key: &str, value: &str| pb::Note {
        reason: String::new(),
        labels: [(key.to_owned(), value.to_owned())].into_iter().collect(),
    };
    let many = (0..9).map(|at| (at.to_string(), String::new()));
    let bad = [
        (note(&"r".repeat(257)), "INVALID_NOTE_REASON"),
        (note("two\nlines"), "INVALID_NOTE_REASON"),
        (label("", "v"), "INVALID_NOTE_LABELS"),
        (label("k=", "v"), "INVALID_NOTE_LABELS"),
        (label("k", &"v".repeat(129)), "INVALID_NOTE_LABELS"),
        (
            pb::Note {
                labels: many.collect(),
                ..Default::default()
            },
            "INVALID_NOTE_LABELS",
        ),
    ];
    for (note, reason) in bad {
        let request = try_request("a", "x").noted(note);
        let refused = client.try_with(request).await.unwrap_err();
        expect_status(&refused, Code::InvalidArgument, reason);
    }
    assert_eq!(world.store.key_count(), 0, "nothing was changed");
    let world = World::over(1, 3);
    let mut client = world.client(0).await;
    let request = try_request("a", "x").noted(note("deploy"));
    let refused = client.try_with(request).await.unwrap_err();
    expect_status(&refused, Code::Unimplemented, "UNSUPPORTED_BY_STORE");
    assert!(refused.message().contains("notes"), "{refused:?}");
}
