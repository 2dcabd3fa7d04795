//! Locks that are handed on to waiters of the same coordinator.

use std::sync::Arc;

use lockkeeper_store::script::Mode;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Caller, Fault, MILLI, acquire, acquire_all, config, granted, in_session, open, settle,
    start_faulty,
};
use crate::{
    coordinator::Coordinator,
    lock::{
        self,
        describe::describe,
        request::{Acquire, Release},
    },
    multi::{self, request::AcquireAll},
    types::Owner,
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
    let request = Release {
        name: super::name(of),
        mode: Mode::Exclusive,
        owner: owner.clone(),
        request_id: None,
    };
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
    let request = Release {
        name: held.name,
        mode: Mode::Fair,
        owner: holder,
        request_id: None,
    };
    for left in [1, 0] {
        let released = lock::release::release(&coordinator.core, &request).await;
        assert_eq!(released.unwrap(), left);
        settle().await;
        let handed_on = faults.calls("lock_hand_on") + faults.calls("grant_hand_on");
        assert_eq!(handed_on, usize::from(left == 0));
        assert_eq!(waiting.lock().len(), handed_on);
    }
}
