use std::time::Duration;

use lockkeeper_access::{Account, Quota, Quotas};

use super::*;
use crate::{
    lock,
    multi::{
        release::release_all,
        request::{AcquireAll, ReleaseAll},
    },
    testing::{self, Fault, acquire_all, config, granted_all, name, one_hold, owner, start_faulty},
};

const LEASE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(1);
const ALMOST: Duration = Duration::from_millis(9_999);

/// A caller with a quota of grants, which nothing here reaches.
fn account() -> Account {
    testing::account(Quotas {
        grants: 100,
        ..Quotas::default()
    })
}

/// How many more grants the caller may have.
fn room(account: &Account) -> u32 {
    let free = |more: &u32| account.count(Quota::Grants, *more).is_ok();
    (0..=100).rev().find(free).unwrap()
}

fn grant(of: &str, by: &str, lease: Duration) -> Grant {
    testing::grant(of, &owner(by), 1, lease)
}

fn permits(of: &str, by: &str, ids: &[PermitId]) -> PermitGrant {
    PermitGrant {
        name: name(of),
        owner: owner(by),
        ids: ids.into(),
        serial: 1,
        lease: LEASE,
        safe_until: Instant::now() + LEASE,
        watched: false,
        replica_acks: 0,
        min_replica_acks: 0,
    }
}

fn ids(count: u8) -> Vec<PermitId> {
    (0..count).map(|number| [number; 16]).collect()
}

#[tokio::test(start_paused = true)]
async fn a_grant_counts_until_it_is_released_or_its_lease_ends() {
    let (all, account) = (Sessionless::default(), account());
    for of in ["a", "b"] {
        let counted = account.count(Quota::Grants, 1).unwrap();
        all.hold(&grant(of, "job", LEASE), counted);
    }
    assert_eq!(room(&account), 98);
    assert!(all.has(&name("a"), Mode::Exclusive, &owner("job")));
    all.release(&name("a"), Mode::Exclusive, &owner("job"));
    assert_eq!(room(&account), 99);
    assert!(!all.has(&name("a"), Mode::Exclusive, &owner("job")));
    tokio::time::advance(ALMOST).await;
    all.forget_ended();
    assert_eq!(room(&account), 99, "it lasts");
    tokio::time::advance(MOMENT).await;
    all.forget_ended();
    assert_eq!(room(&account), 100);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_renewed_counts_once_and_until_its_new_end() {
    let (all, account) = (Sessionless::default(), account());
    let counted = account.count(Quota::Grants, 1).unwrap();
    all.hold(&grant("a", "job", LEASE), counted);
    all.hold(&grant("a", "job", LEASE * 3), Counted::default());
    assert_eq!(room(&account), 99);
    tokio::time::advance(LEASE * 2).await;
    all.forget_ended();
    assert_eq!(room(&account), 99);
    tokio::time::advance(LEASE).await;
    all.forget_ended();
    assert_eq!(room(&account), 100);
}

#[tokio::test(start_paused = true)]
async fn of_several_locks_each_that_counts_already_takes_nothing_more() {
    let (all, account) = (Sessionless::default(), account());
    let counted = account.count(Quota::Grants, 1).unwrap();
    all.hold(&grant("b", "job", LEASE), counted);
    let grants = ["a", "b", "c"].map(|of| grant(of, "job", LEASE));
    let counted = account.count(Quota::Grants, 2).unwrap();
    all.hold_all(&grants, counted);
    assert_eq!(room(&account), 97);
    all.release(&name("b"), Mode::Exclusive, &owner("job"));
    assert_eq!(room(&account), 98);
    all.release(&name("c"), Mode::Exclusive, &owner("job"));
    assert_eq!(room(&account), 99);
}

#[tokio::test(start_paused = true)]
async fn permits_count_one_by_one_and_are_given_back_by_id_or_all_of_an_owner() {
    let (all, account) = (Sessionless::default(), account());
    let ids = ids(3);
    for (of, by) in [("s", "job"), ("s", "other"), ("t", "job")] {
        let counted = account.count(Quota::Grants, 3).unwrap();
        all.hold_permits(&permits(of, by, &ids), counted);
    }
    assert_eq!(room(&account), 91);
    all.release_permits(&name("s"), &owner("job"), &ids[1..2]);
    assert_eq!(room(&account), 92);
    all.release_permits(&name("s"), &owner("job"), &[]);
    assert_eq!(
        room(&account),
        94,
        "those of others and of other names stay"
    );
    all.release_permits(&name("s"), &owner("other"), &[]);
    all.release_permits(&name("t"), &owner("job"), &[]);
    assert_eq!(room(&account), 100);
}

#[tokio::test(start_paused = true)]
async fn an_owner_may_hold_something_from_its_grant_to_its_release_or_the_end_of_its_lease() {
    let all = Sessionless::default();
    assert!(!all.may_hold("job"));
    all.hold(&grant("a", "job", LEASE), Counted::default());
    assert!(all.may_hold("job") && !all.may_hold("another"));
    // A release by another owner is none of its own.
    all.release(&name("a"), Mode::Exclusive, &owner("another"));
    assert!(all.may_hold("job"));
    tokio::time::advance(ALMOST).await;
    assert!(all.may_hold("job"));
    tokio::time::advance(MOMENT).await;
    assert!(!all.may_hold("job"));
    all.hold(&grant("a", "job", LEASE), Counted::default());
    all.release(&name("a"), Mode::Exclusive, &owner("job"));
    assert!(!all.may_hold("job"));
}

#[tokio::test(start_paused = true)]
async fn locks_whose_release_was_answered_late_no_longer_count() {
    let own = owner("job");
    for is_one in [true, false] {
        let (faults, coordinator, _store) = start_faulty(config());
        let core = &coordinator.core;
        let account = account();
        let named = [("a", Mode::Exclusive), ("b", Mode::Exclusive)];
        let request = AcquireAll {
            account: account.clone(),
            ..acquire_all(&named[..2 - usize::from(is_one)], &own)
        };
        let release = ReleaseAll {
            locks: request.locks.clone(),
            owner: own.clone(),
            request_id: None,
        };
        granted_all(&coordinator, &request).await.take().unwrap();
        assert!(room(&account) < 100);
        for is_late in [true, false] {
            let script = if is_one {
                "lock_release"
            } else {
                "multi_release"
            };
            if is_late {
                faults.next(script, Fault::RunsAfter(MOMENT));
            }
            let released = if is_one {
                let release = one_hold("a", Mode::Exclusive, &own);
                lock::release::release(core, &release).await.map(drop)
            } else {
                release_all(core, &release).await.map(drop)
            };
            assert!(released.is_err());
            tokio::time::sleep(MOMENT * 10).await;
        }
        assert_eq!(room(&account), 100, "{is_one}");
    }
}

#[test]
fn holders_that_are_remembered_have_a_limited_number_of_places() {
    let places: std::collections::BTreeSet<_> =
        (0..10_000).map(|it: u32| place(&it.to_string())).collect();
    assert!(places.iter().all(|place| *place < HOLDERS));
    assert!(places.len() > 1000);
}
