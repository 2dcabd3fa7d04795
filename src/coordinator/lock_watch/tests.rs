//! Waits for a free lock and watchers of a lock, at one coordinator.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::{Account, Quotas};
use lockkeeper_store::script::Mode;
use tokio::time::Instant;

use super::{
    changes::{GapReason, GrantEnd},
    free::{AwaitFree, await_free},
    watcher::{LockEvent, LockWatcher},
};
use crate::{
    coordinator::Coordinator,
    progress::WaitState,
    testing::{
        Caller, Fault, Faults, MILLI, SECOND, account, acquire, config, granted, in_session, name,
        one_hold, open, owner, settle, start_faulty,
    },
    types::Grant,
};

/// A coordinator, and a lock that is held for half a minute.
async fn held() -> (Faults, Coordinator, Grant) {
    let (faults, coordinator, _store) = start_faulty(config());
    let request = acquire("a", Mode::Exclusive, &owner("x"));
    let grant = granted(&coordinator, &request).await.take().unwrap();
    (faults, coordinator, grant)
}

fn request(wait: Option<Duration>) -> AwaitFree {
    AwaitFree {
        name: name("a"),
        session: None,
        wait,
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_without_a_wait_tells_until_when_the_lock_is_held() {
    let (_faults, coordinator, grant) = held().await;
    let mut caller = Caller::default();
    let request = request(Some(Duration::ZERO));
    let seen = await_free(&coordinator.core, &request, &mut caller).await;
    let holder = seen.unwrap().unwrap_err().holder;
    assert!(!caller.waits());
    let until = holder.until.unwrap();
    assert!(until >= grant.safe_until && until <= Instant::now() + SECOND * 30);
}

#[tokio::test(start_paused = true)]
async fn a_wait_does_not_end_with_an_error_of_a_store_that_is_back() {
    let (faults, coordinator, _grant) = held().await;
    let (request, mut caller) = (request(Some(SECOND * 5)), Caller::default());
    let waits = await_free(&coordinator.core, &request, &mut caller);
    let outage = async {
        tokio::time::sleep(SECOND).await;
        faults.next("lock_inspect", Fault::Unavailable);
    };
    let (ended, ()) = tokio::join!(waits, outage);
    assert!(matches!(ended, Ok(Err(_))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_room_is_notified_with_the_next_look_and_then_not_again() {
    let (_faults, coordinator, _grant) = held().await;
    let caller = Caller::default();
    caller.is_busy_for(1);
    let (mut progress, core) = (caller.clone(), Arc::clone(&coordinator.core));
    coordinator.core.tasks.spawn("wait", async move {
        drop(await_free(&core, &request(None), &mut progress).await);
    });
    tokio::time::sleep(SECOND * 2).await;
    let told = caller.told();
    assert!(matches!(told[..], [WaitState::Lock(_)]), "{told:?}");
    tokio::time::sleep(SECOND * 3).await;
    assert!(caller.told().is_empty());
}

async fn watch(coordinator: &Coordinator) -> LockWatcher {
    let watcher = coordinator.watch_lock(name("a"), &Account::default());
    let mut watcher = watcher.unwrap();
    let first = watcher.next().await.unwrap();
    assert!(matches!(first, LockEvent::State(_)), "{first:?}");
    watcher
}

fn hint(coordinator: &Coordinator) {
    let channel = lockkeeper_store::script::keys::channel("a");
    coordinator.core.events.locks.hint(&channel, false);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_never_quiet_is_looked_at_once_in_ten_milliseconds() {
    let (faults, coordinator, _grant) = held().await;
    let _watcher = watch(&coordinator).await;
    tokio::time::sleep(MILLI * 100).await;
    let before = faults.calls("lock_inspect");
    for _ in 0..30 {
        hint(&coordinator);
        settle().await;
    }
    let looks = faults.calls("lock_inspect") - before;
    assert!((3..=4).contains(&looks), "{looks}");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_falls_behind_notices_it() {
    let (_faults, coordinator, _grant) = held().await;
    let is_behind = |event: &LockEvent| matches!(event, LockEvent::Gap(GapReason::Behind));
    let mut watcher = watch(&coordinator).await;
    let quiet = tokio::time::timeout(MILLI * 100, watcher.next()).await;
    assert!(quiet.is_err());
    for _ in 0..2 {
        hint(&coordinator);
        tokio::time::sleep(MILLI * 20).await;
    }
    let (of, account) = (name("a"), Account::default());
    let caller = (owner("y"), &account);
    let waiters = &coordinator.core.waiters;
    let _waits = waiters.join(&of, Mode::Exclusive.into(), caller, None.into(), None);
    hint(&coordinator);
    tokio::time::sleep(MILLI * 20).await;
    let event = tokio::time::timeout(SECOND, watcher.next()).await.unwrap();
    assert!(is_behind(&event.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_release_here_is_heard_of_without_a_message() {
    let (faults, coordinator, _store) = start_faulty(config());
    faults.deafen();
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
    granted(&coordinator, &request).await.take().unwrap();
    let mut watcher = watch(&coordinator).await;
    let release = one_hold("a", Mode::Exclusive, &request.owner);
    crate::lock::release::release(&coordinator.core, &release)
        .await
        .unwrap();
    let event = tokio::time::timeout(MILLI * 100, watcher.next())
        .await
        .unwrap();
    let end = match event.unwrap() {
        LockEvent::Ended { end, .. } => end,
        other => panic!("{other:?}"),
    };
    assert_eq!(end, GrantEnd::Released);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_counts_as_a_waiter_as_long_as_it_is_there() {
    let (_faults, coordinator, _grant) = held().await;
    let account = account(Quotas {
        waiters: 1,
        ..Quotas::default()
    });
    let watch = || coordinator.watch_lock(name("a"), &account);
    let first = watch().unwrap();
    assert!(watch().is_err());
    drop(first);
    assert!(watch().is_ok());
}
