//! Locks that are handed on to waiters of the same coordinator.

use std::sync::Arc;

use lockkeeper_store::script::Mode;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Caller, Fault, MILLI, acquire, acquire_all, config, granted, in_session, name, one_hold, open,
    owner, request_id, settle, start, start_faulty,
};
use crate::{
    config::Config,
    coordinator::Coordinator,
    lock::{self, describe::describe, request::Acquire},
    multi::{self, request::AcquireAll},
    types::{Limits, Owner, tests::limits},
};

/// The labels of those that were granted what they waited for.
type Granted = Arc<Mutex<Vec<String>>>;

/// Waits for a lock in the background, and keeps it.
fn wait(coordinator: &Coordinator, request: Acquire, granted: &Granted) {
    let (core, granted) = (Arc::clone(&coordinator.core), Arc::clone(granted));
    coordinator.core.tasks.spawn("wait", async move {
        let delivery = lock::acquire::acquire(&core, &request, &mut Caller::default()).await;
        delivery.unwrap().unwrap().take().unwrap();
        granted.lock().push(request.owner.label.to_string());
    });
}

fn wait_for_all(coordinator: &Coordinator, request: AcquireAll, granted: &Granted) {
    let (core, granted) = (Arc::clone(&coordinator.core), Arc::clone(granted));
    coordinator.core.tasks.spawn("wait", async move {
        let delivery = multi::acquire::acquire_all(&core, &request, &mut Caller::default()).await;
        delivery.unwrap().unwrap().take().unwrap();
        granted.lock().push(request.owner.label.to_string());
    });
}

async fn release(coordinator: &Coordinator, of: &str, owner: &Owner) -> u32 {
    release_of(coordinator, of, Mode::Exclusive, owner).await
}

async fn release_of(coordinator: &Coordinator, of: &str, mode: Mode, owner: &Owner) -> u32 {
    let request = one_hold(of, mode, owner);
    let left = lock::release::release(&coordinator.core, &request).await;
    left.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_release_and_an_acquire_are_made_by_themselves_if_one_call_for_both_is_refused() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let [holder, next] = ["x", "y"].map(|label| in_session(&opened, label));
    let held = acquire("a", Mode::Exclusive, &holder);
    granted(&coordinator, &held).await.take().unwrap();
    let waiting = Granted::default();
    wait(&coordinator, acquire("a", Mode::Exclusive, &next), &waiting);
    tokio::time::sleep(MILLI * 100).await;
    faults.next("lock_hand_on", Fault::OutOfMemory);
    faults.next("grant_hand_on", Fault::OutOfMemory);
    assert_eq!(release(&coordinator, "a", &holder).await, 0);
    settle().await;
    let handed_on = faults.calls("lock_hand_on") + faults.calls("grant_hand_on");
    assert_eq!(handed_on, 1);
    assert_eq!(*waiting.lock(), ["y"]);
}

#[tokio::test(start_paused = true)]
async fn the_next_in_line_does_not_try_while_all_locks_of_the_first_are_held() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let [holder, first, next] = ["x", "y", "z"].map(|label| in_session(&opened, label));
    let held = acquire("b", Mode::Exclusive, &holder);
    granted(&coordinator, &held).await.take().unwrap();
    let waiting = Granted::default();
    let both = [("a", Mode::Exclusive), ("b", Mode::Exclusive)];
    wait_for_all(&coordinator, acquire_all(&both, &first), &waiting);
    tokio::time::sleep(MILLI * 100).await;
    wait(&coordinator, acquire("b", Mode::Exclusive, &next), &waiting);
    tokio::time::sleep(MILLI * 100).await;
    let tries = faults.calls("lock_acquire");
    release(&coordinator, "b", &holder).await;
    tokio::time::sleep(MILLI * 100).await;
    assert_eq!(*waiting.lock(), ["y"]);
    assert_eq!(faults.calls("lock_acquire"), tries);
}

#[tokio::test(start_paused = true)]
async fn waits_of_the_owner_that_has_the_lock_now_are_granted_with_it() {
    for mode in [Mode::Exclusive, Mode::Fair, Mode::Write] {
        let coordinator = start(config());
        let opened = open(&coordinator);
        let [holder, next] = ["x", "y"].map(|label| in_session(&opened, label));
        let held = acquire("a", mode, &holder);
        granted(&coordinator, &held).await.take().unwrap();
        let waiting = Granted::default();
        for _ in 0..3 {
            wait(&coordinator, acquire("a", mode, &next), &waiting);
            tokio::time::sleep(MILLI * 100).await;
        }
        release_of(&coordinator, "a", mode, &holder).await;
        tokio::time::sleep(MILLI * 100).await;
        assert_eq!(*waiting.lock(), ["y"; 3], "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_last_hold_of_a_fair_lock_is_handed_on() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let [holder, next] = ["x", "y"].map(|label| in_session(&opened, label));
    let held = acquire("a", Mode::Fair, &holder);
    for _ in 0..2 {
        granted(&coordinator, &held).await.take().unwrap();
    }
    let waiting = Granted::default();
    let begun = Instant::now();
    wait(&coordinator, acquire("a", Mode::Fair, &next), &waiting);
    tokio::time::sleep(MILLI * 100).await;
    let seen = describe(&coordinator.core, &held.name).await.unwrap();
    let since: Vec<_> = seen.waiters.iter().map(|it| it.since).collect();
    assert_eq!(since, [Some(begun)]);
    for left in [1, 0] {
        let released = release_of(&coordinator, "a", Mode::Fair, &holder).await;
        assert_eq!(released, left);
        settle().await;
        let handed_on = faults.calls("lock_hand_on") + faults.calls("grant_hand_on");
        assert_eq!(handed_on, usize::from(left == 0));
        assert_eq!(waiting.lock().len(), handed_on);
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_behind_others_does_not_ask_the_store_unless_it_may_get_something() {
    let (faults, coordinator, _store) = start_faulty(Config {
        limits: Limits {
            waiters_per_lock_max: 8,
            ..limits()
        },
        ..config()
    });
    let opened = open(&coordinator);
    let [holder, first, next] = ["x", "y", "z"].map(|label| in_session(&opened, label));
    let held = acquire("a", Mode::Exclusive, &holder);
    granted(&coordinator, &held).await.take().unwrap();
    let waiting = Granted::default();
    wait(
        &coordinator,
        acquire("a", Mode::Exclusive, &first),
        &waiting,
    );
    tokio::time::sleep(MILLI * 100).await;
    let exclusive = |owner: &Owner| acquire("a", Mode::Exclusive, owner);
    let repeatable = Acquire {
        request_id: request_id("r"),
        ..exclusive(&next)
    };
    // The request, the attempts that it makes at once, and whether it is granted.
    let rows = [
        (exclusive(&next), 0, false),
        (exclusive(&Owner::made(&held.name, None)), 0, false),
        (exclusive(&owner("n")), 1, false),
        (repeatable, 1, false),
        (exclusive(&holder), 1, true),
    ];
    for (request, attempts, is_granted) in rows {
        let (before, label) = (
            faults.calls("lock_acquire"),
            request.owner.label.to_string(),
        );
        wait(&coordinator, request, &waiting);
        settle().await;
        assert_eq!(faults.calls("lock_acquire") - before, attempts, "{label}");
        assert_eq!(waiting.lock().contains(&label), is_granted, "{label}");
    }
    assert_eq!(opened.stream.session.seen().waits, 3);
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_handed_on_in_one_call_only_to_a_wait_that_says_nothing_of_its_hold() {
    let note = Some(Arc::default());
    let plain = |owner: &Owner| acquire("a", Mode::Exclusive, owner);
    for (which, calls) in [
        ("plain", 1),
        ("id", 1),
        ("note", 0),
        ("named", 1),
        ("made", 1),
    ] {
        let (faults, coordinator, _store) = start_faulty(config());
        let opened = open(&coordinator);
        let [holder, next] = ["x", "y"].map(|label| in_session(&opened, label));
        granted(&coordinator, &plain(&holder)).await.take().unwrap();
        let request = match which {
            "id" => Acquire {
                request_id: request_id("r"),
                ..plain(&next)
            },
            "note" => Acquire {
                note: note.clone(),
                ..plain(&next)
            },
            "named" => plain(&owner("y")),
            "made" => plain(&Owner::made(&name("a"), None)),
            _ => plain(&next),
        };
        let waiting = Granted::default();
        wait(&coordinator, request, &waiting);
        tokio::time::sleep(MILLI * 100).await;
        let tries = faults.calls("lock_acquire");
        assert_eq!(release(&coordinator, "a", &holder).await, 0);
        tokio::time::sleep(MILLI * 100).await;
        assert_eq!(faults.calls("lock_acquire") - tries, 1 - calls, "{which}");
        let handed_on = faults.calls("lock_hand_on") + faults.calls("grant_hand_on");
        assert_eq!(handed_on, calls, "{which}");
        assert_eq!(waiting.lock().len(), 1, "{which}");
        assert_eq!(opened.stream.session.seen().waits, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_leaves_the_queue_of_the_store_if_there_is_one() {
    for (mode, script) in [
        (Mode::Fair, Some("fair_leave")),
        (Mode::Write, Some("write_leave")),
        (Mode::Exclusive, None),
    ] {
        let (faults, coordinator, _store) = start_faulty(config());
        let held = acquire("a", mode, &owner("x"));
        granted(&coordinator, &held).await.take().unwrap();
        let request = Acquire {
            wait: Some(MILLI * 100),
            ..acquire("a", mode, &owner("y"))
        };
        let mut caller = Caller::default();
        let ended = lock::acquire::acquire(&coordinator.core, &request, &mut caller).await;
        let not_granted = ended.unwrap().unwrap_err();
        let until = not_granted.holder.until.unwrap();
        assert!(until > Instant::now() && caller.waits());
        settle().await;
        let leaves = |script| faults.calls(script);
        let expected = usize::from(script.is_some());
        assert_eq!(leaves("fair_leave") + leaves("write_leave"), expected);
        assert!(script.is_none_or(|script| leaves(script) == 1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_in_line_does_not_try_while_the_first_holds_the_lock() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let [holder, first, next] = ["x", "y", "z"].map(|label| in_session(&opened, label));
    let exclusive = |owner: &Owner| acquire("a", Mode::Exclusive, owner);
    granted(&coordinator, &exclusive(&holder))
        .await
        .take()
        .unwrap();
    let waiting = Granted::default();
    for owner in [&first, &next] {
        wait(&coordinator, exclusive(owner), &waiting);
        tokio::time::sleep(MILLI * 100).await;
    }
    let tries = faults.calls("lock_acquire");
    release(&coordinator, "a", &holder).await;
    tokio::time::sleep(MILLI * 100).await;
    assert_eq!(*waiting.lock(), ["y"]);
    assert_eq!(faults.calls("lock_acquire"), tries);
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_fair_lock_are_vouched_for_three_times_in_its_timeout() {
    let (faults, coordinator, _store) = start_faulty(config());
    let held = acquire("a", Mode::Fair, &owner("x"));
    granted(&coordinator, &held).await.take().unwrap();
    wait(
        &coordinator,
        acquire("a", Mode::Fair, &owner("y")),
        &Granted::default(),
    );
    tokio::time::sleep(MILLI * 15_100).await;
    let vouched = faults.calls("fair_vouch");
    assert!((8..=10).contains(&vouched), "{vouched}");
}
