//! Requests of these tests, and what has become of them.

use std::time::Duration;

use lockkeeper_access::Account;
use lockkeeper_store::script::{Mode, Refusal};
use tokio::time::Instant;

use super::{MILLI, name};
use crate::{
    coordinator::Coordinator,
    core::Core,
    events::What,
    lock::{
        attempt::{Attempted, attempt},
        delivery::Delivery,
        request::{Acquire, Release},
    },
    multi::{
        attempt::{AttemptedAll, attempt_all},
        locks::Locks,
        request::AcquireAll,
        undo::DeliveryAll,
    },
    semaphore::request::{AcquirePermits, PermitCount},
    stream::Opened,
    types::{Grant, OnDisconnect, Owner, RequestId, tests::limits},
};

/// A session that keeps its grants when its stream breaks.
pub(crate) fn open(coordinator: &Coordinator) -> Opened {
    let (account, name) = (Account::default(), String::new());
    let opened = coordinator.open(account, None, name, OnDisconnect::Keep);
    opened.unwrap()
}

pub(crate) fn in_session(opened: &Opened, label: &str) -> Owner {
    Owner::in_session(opened.stream.id().clone(), label, &limits()).unwrap()
}

pub(crate) fn owner(label: &str) -> Owner {
    Owner::sessionless(label, &limits()).unwrap()
}

pub(crate) fn request_id(id: &str) -> Option<RequestId> {
    RequestId::parse(id, &limits()).unwrap()
}

pub(crate) fn locks(named: &[(&str, Mode)]) -> Locks {
    let named = named.iter().map(|(of, mode)| Ok((name(of), *mode)));
    Locks::new(named, &limits()).unwrap()
}

/// A request for one lock, which waits without a limit.
pub(crate) fn acquire(of: &str, mode: Mode, owner: &Owner) -> Acquire {
    acquire_all(&[(of, mode)], owner).member(0, None, None)
}

/// A request for several locks, which waits without a limit.
pub(crate) fn acquire_all(named: &[(&str, Mode)], owner: &Owner) -> AcquireAll {
    AcquireAll {
        locks: locks(named),
        owner: owner.clone(),
        lease: None,
        wait: None,
        request_id: None,
        min_replica_acks: 0,
        note: None,
        end_on_deadlock: false,
        account: Account::default(),
    }
}

/// A request for permits of the semaphore `s`, which waits without a limit.
pub(crate) fn permits(count: u32, owner: &Owner) -> AcquirePermits {
    AcquirePermits {
        name: name("s"),
        owner: owner.clone(),
        permits: PermitCount::new(count).unwrap(),
        lease: None,
        wait: None,
        request_id: None,
        min_replica_acks: 0,
        account: Account::default(),
    }
}

/// A release of one hold.
pub(crate) fn one_hold(of: &str, mode: Mode, owner: &Owner) -> Release {
    Release {
        name: name(of),
        mode,
        owner: owner.clone(),
        request_id: None,
    }
}

/// An exclusive, unwatched grant with this serial, which was made just now.
pub(crate) fn grant(of: &str, owner: &Owner, serial: u64, lease: Duration) -> Grant {
    Grant {
        name: name(of),
        mode: Mode::Exclusive,
        owner: owner.clone(),
        field: None,
        hold_count: 1,
        fencing_token: serial,
        serial,
        lease,
        safe_until: Instant::now() + lease,
        watched: false,
        replica_acks: 0,
        min_replica_acks: 0,
        note: None,
    }
}

/// The answer to an attempt on a lock that nobody else holds.
pub(crate) async fn granted(coordinator: &Coordinator, request: &Acquire) -> Delivery {
    let attempted = attempt(&coordinator.core, request, Refusal::Forgotten, None);
    match attempted.await.unwrap() {
        Attempted::Granted(delivery) => delivery,
        busy @ Attempted::Busy { .. } => panic!("{busy:?}"),
    }
}

/// The answer to an attempt on several locks that nobody else holds.
pub(crate) async fn granted_all(coordinator: &Coordinator, request: &AcquireAll) -> DeliveryAll {
    let attempted = attempt_all(&coordinator.core, request, Refusal::Forgotten);
    match attempted.await.unwrap() {
        AttemptedAll::Granted(delivery) => delivery,
        AttemptedAll::Busy { which, .. } => panic!("{}", request.locks.name(which)),
    }
}

/// Each holder of a lock in the store, and its holds.
pub(crate) async fn holders(core: &Core, of: &str) -> Vec<(String, u32)> {
    let seen = core.scripts.inspect(of, 10).await.unwrap();
    let holders = seen.holders.into_iter();
    let owner = |field: &[u8]| Owner::from_field(str::from_utf8(field).unwrap());
    let holders = holders.map(|it| (owner(&it.owner).label.to_string(), it.hold_count));
    holders.collect()
}

/// The holds that were left after each release that the history has, the newest first.
pub(crate) fn releases(coordinator: &Coordinator) -> Vec<u32> {
    let releases = coordinator.recent().map(|it| it.event);
    let releases = releases.filter(|event| event.what == What::Released);
    releases.map(|event| event.holds).collect()
}

/// Lets everything run that waits for nothing.
pub(crate) async fn settle() {
    tokio::time::sleep(MILLI).await;
}
