//! Permits of one coordinator, on a store that can fail.

use std::time::Duration;

use lockkeeper_access::{Quota, Quotas};

use super::{
    acquire::acquire,
    attempt::{Attempted, PermitDelivery, attempt},
    release::release,
    renew::renew,
    request::{AcquirePermits, ReleasePermits, RenewPermits},
};
use crate::{
    coordinator::Coordinator,
    progress::WaitState,
    stream::Opened,
    testing::{
        Caller, Fault, Faults, MILLI, SECOND, account, config, in_session, name, open, owner,
        permits, releases, request_id, settle, start_faulty,
    },
    types::{Lease, Owner, tests::limits},
    watchdog,
};

/// A coordinator, and a semaphore of three permits.
async fn semaphore() -> (Faults, Coordinator) {
    let (faults, coordinator, _store) = start_faulty(config());
    let set = coordinator.core.scripts.set_permits("s", 3, false);
    set.await.unwrap();
    (faults, coordinator)
}

fn back(owner: &Owner) -> ReleasePermits {
    ReleasePermits {
        name: name("s"),
        owner: owner.clone(),
        ids: Vec::new(),
        request_id: None,
    }
}

async fn granted(coordinator: &Coordinator, request: &AcquirePermits) -> PermitDelivery {
    match attempt(&coordinator.core, request, false).await.unwrap() {
        Attempted::Granted(delivery) => delivery,
        busy @ Attempted::Busy { .. } => panic!("{busy:?}"),
    }
}

/// A session that holds permits, and their owner.
async fn holding(count: u32, coordinator: &Coordinator) -> (Opened, Owner) {
    let opened = open(coordinator);
    let own = in_session(&opened, "");
    let delivery = granted(coordinator, &permits(count, &own)).await;
    delivery.take().unwrap();
    (opened, own)
}

async fn available(coordinator: &Coordinator) -> u32 {
    let everybody = permits(3, &owner("all"));
    match attempt(&coordinator.core, &everybody, false).await.unwrap() {
        Attempted::Busy { available, .. } => available,
        Attempted::Granted(_) => 3,
    }
}

#[tokio::test(start_paused = true)]
async fn permits_that_nobody_takes_are_given_back_with_their_quota() {
    let (_faults, coordinator) = semaphore().await;
    coordinator.keep_history();
    let core = &coordinator.core;
    let request = AcquirePermits {
        account: account(Quotas {
            grants: 2,
            ..Quotas::default()
        }),
        ..permits(2, &owner("x"))
    };
    let delivery = granted(&coordinator, &request).await;
    assert!(!core.has_room(&request.account));
    drop(delivery);
    settle().await;
    assert!(core.has_room(&request.account));
    assert_eq!(available(&coordinator).await, 3);
    assert_eq!(releases(&coordinator), [0]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_in_time_gets_no_permits() {
    // One that may have run, and one whose permits have ended when it is answered.
    for fault in [
        Fault::RunsAfter(Duration::ZERO),
        Fault::AnswerTakes(SECOND * 10),
    ] {
        let (faults, coordinator) = semaphore().await;
        faults.next("permit_acquire", fault);
        faults.next("permit_undo", Fault::Unavailable);
        let request = AcquirePermits {
            lease: Some(Lease::new(SECOND * 10, &limits()).unwrap()),
            ..permits(2, &owner("x"))
        };
        let attempted = attempt(&coordinator.core, &request, false).await;
        assert!(attempted.is_err(), "{fault:?}");
        tokio::time::sleep(SECOND).await;
        assert_eq!(available(&coordinator).await, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn permits_that_were_lost_on_their_way_are_not_delivered() {
    let (_faults, coordinator) = semaphore().await;
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let delivery = granted(&coordinator, &permits(1, &own)).await;
    let scripts = &coordinator.core.scripts;
    let gone = scripts.release_permits("s", own.field(), &[], None);
    gone.await.unwrap();
    watchdog::renew_all(&coordinator.core).await;
    assert!(delivery.take().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_session_keeps_permits_only_if_a_repeat_took_them_over() {
    for is_repeated in [false, true] {
        let (_faults, coordinator) = semaphore().await;
        let opened = open(&coordinator);
        let request = AcquirePermits {
            request_id: request_id("r"),
            ..permits(2, &in_session(&opened, ""))
        };
        let first = granted(&coordinator, &request).await;
        if is_repeated {
            granted(&coordinator, &request).await.take().unwrap();
        }
        drop(first);
        settle().await;
        assert_eq!(!opened.stream.names().is_empty(), is_repeated);
        let expected = if is_repeated { 1 } else { 3 };
        assert_eq!(available(&coordinator).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_has_no_permits_that_an_undo_gave_back_whose_answer_was_lost() {
    let (faults, coordinator) = semaphore().await;
    let opened = open(&coordinator);
    let request = AcquirePermits {
        request_id: request_id("r"),
        ..permits(2, &in_session(&opened, ""))
    };
    let delivery = granted(&coordinator, &request).await;
    faults.next("permit_undo", Fault::RunsAfter(MILLI));
    drop(delivery);
    tokio::time::sleep(SECOND).await;
    assert!(opened.stream.names().is_empty());
    assert_eq!(available(&coordinator).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_did_not_arrive_is_completed_without_its_caller() {
    for id in ["", "r"] {
        let (faults, coordinator) = semaphore().await;
        let (opened, own) = holding(2, &coordinator).await;
        faults.next("permit_release", Fault::RequestLost);
        let request = ReleasePermits {
            request_id: request_id(id),
            ..back(&own)
        };
        let released = release(&coordinator.core, &request).await;
        assert!(released.is_err());
        assert!(opened.stream.names().is_empty());
        settle().await;
        assert_eq!(available(&coordinator).await, 3);
        let again = release(&coordinator.core, &request).await;
        assert_eq!(again.is_ok(), !id.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_of_what_the_session_does_not_have_is_not_repeated() {
    let (faults, coordinator) = semaphore().await;
    let opened = open(&coordinator);
    faults.next("permit_release", Fault::RequestLost);
    let request = ReleasePermits {
        request_id: request_id("r"),
        ..back(&in_session(&opened, ""))
    };
    assert!(release(&coordinator.core, &request).await.is_err());
    tokio::time::sleep(SECOND).await;
    assert_eq!(faults.calls("permit_release"), 1);
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_not_held_cost_no_permit_that_is() {
    let (_faults, coordinator) = semaphore().await;
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let delivery = granted(&coordinator, &permits(1, &own)).await;
    let held = delivery.take().unwrap().ids[0];
    let release_of = async |ids| {
        let request = ReleasePermits { ids, ..back(&own) };
        release(&coordinator.core, &request).await
    };
    release_of(vec![held, [7; 16]]).await.unwrap_err();
    settle().await;
    assert_eq!(opened.stream.names(), [name("s")]);
    assert!(opened.stream.session.state.lock().lost.is_empty());
    release_of(vec![held]).await.unwrap();
    assert!(opened.stream.names().is_empty());
    // The store says that none of them is held.
    release_of(vec![held]).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn permits_whose_release_was_answered_late_no_longer_count() {
    // How many are taken, whether the release names them and can be retried, and what counts then.
    let rows = [
        (2, true, "r", 0),
        (1, true, "", 0),
        (2, false, "", 0),
        // The owner may have acquired others since.
        (2, false, "r", 2),
    ];
    for (count, is_named, id, counted) in rows {
        let (faults, coordinator) = semaphore().await;
        let caller = account(Quotas {
            grants: 2,
            ..Quotas::default()
        });
        let request = AcquirePermits {
            account: caller.clone(),
            ..permits(count, &owner("x"))
        };
        let grant = granted(&coordinator, &request).await.take().unwrap();
        let request = ReleasePermits {
            ids: if is_named { grant.ids.to_vec() } else { vec![] },
            request_id: request_id(id),
            ..back(&owner("x"))
        };
        faults.next("permit_release", Fault::RunsAfter(MILLI));
        assert!(release(&coordinator.core, &request).await.is_err());
        tokio::time::sleep(SECOND).await;
        let again = release(&coordinator.core, &request).await;
        assert_eq!(again.is_ok(), !id.is_empty());
        let room = caller.count(Quota::Grants, 2 - counted);
        assert!(room.is_ok(), "{count} {is_named} {id}");
        assert!(caller.count(Quota::Grants, 1).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_repeat_is_no_second_grant() {
    let (_faults, coordinator) = semaphore().await;
    coordinator.keep_history();
    let request = AcquirePermits {
        request_id: request_id("r"),
        ..permits(2, &owner("x"))
    };
    for _ in 0..2 {
        granted(&coordinator, &request).await.take().unwrap();
    }
    assert_eq!(coordinator.recent().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn permits_on_their_way_back_are_not_lost() {
    let (faults, coordinator) = semaphore().await;
    let (opened, own) = holding(2, &coordinator).await;
    faults.next("permit_release", Fault::AnswerTakes(SECOND));
    let request = back(&own);
    let released = release(&coordinator.core, &request);
    let renewed = async {
        settle().await;
        watchdog::renew_all(&coordinator.core).await;
    };
    let (released, ()) = tokio::join!(released, renewed);
    assert_eq!(released.unwrap().permits, 2);
    assert!(opened.stream.session.state.lock().lost.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_a_lease_asks_for_that_of_the_session() {
    let (_faults, coordinator) = semaphore().await;
    let (_opened, own) = holding(1, &coordinator).await;
    // A renewal never shortens a lease.
    for (lease, expected) in [(Some(SECOND * 60), SECOND * 60), (None, SECOND * 55)] {
        let request = RenewPermits {
            name: name("s"),
            owner: own.clone(),
            ids: Vec::new(),
            lease: lease.map(|it| Lease::new(it, &limits()).unwrap()),
        };
        let renewed = renew(&coordinator.core, &request).await.unwrap();
        assert_eq!(renewed[0].lease, expected);
        tokio::time::sleep(SECOND * 5).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_notified_of_permits_that_are_not_enough_for_it() {
    let (_faults, coordinator) = semaphore().await;
    let one = granted(&coordinator, &permits(1, &owner("x"))).await;
    let two = granted(&coordinator, &permits(2, &owner("y"))).await;
    let (one, _two) = (one.take().unwrap(), two.take().unwrap());
    let (caller, core) = (Caller::default(), coordinator.core.clone());
    let (mut progress, request) = (caller.clone(), permits(3, &owner("z")));
    coordinator.core.tasks.spawn("wait", async move {
        drop(acquire(&core, &request, &mut progress).await);
    });
    settle().await;
    let free = |state: WaitState| match state {
        WaitState::Permits(waiting) => waiting.available,
        other => panic!("{other:?}"),
    };
    let told: Vec<_> = caller.told().into_iter().map(free).collect();
    assert_eq!(told, [0]);
    let request = ReleasePermits {
        ids: one.ids.to_vec(),
        ..back(&one.owner)
    };
    release(&coordinator.core, &request).await.unwrap();
    tokio::time::sleep(MILLI * 100).await;
    let told: Vec<_> = caller.told().into_iter().map(free).collect();
    assert_eq!(told, [1]);
}

#[tokio::test(start_paused = true)]
async fn permits_that_were_not_released_are_lost_when_they_are_gone() {
    // Whether the release names a permit that is not held, or does not reach the store.
    for names_another in [true, false] {
        let (faults, coordinator) = semaphore().await;
        let (opened, own) = holding(1, &coordinator).await;
        let second = granted(&coordinator, &permits(1, &own)).await;
        let second = second.take().unwrap();
        let mut release_of = back(&own);
        if names_another {
            release_of.ids = vec![second.ids[0], rand::random()];
        } else {
            faults.next("permit_release", Fault::Unavailable);
        }
        release(&coordinator.core, &release_of).await.unwrap_err();
        let gone = coordinator
            .core
            .scripts
            .release_permits("s", own.field(), &[], None);
        gone.await.unwrap();
        watchdog::renew_all(&coordinator.core).await;
        assert_eq!(
            opened.stream.session.state.lock().lost.len(),
            2,
            "{names_another}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_loses_permits_that_its_own_renewal_does_not_find() {
    let (_faults, coordinator) = semaphore().await;
    let (opened, own) = holding(1, &coordinator).await;
    let gone = coordinator
        .core
        .scripts
        .release_permits("s", own.field(), &[], None);
    gone.await.unwrap();
    let request = RenewPermits {
        name: name("s"),
        owner: own,
        ids: Vec::new(),
        lease: None,
    };
    renew(&coordinator.core, &request).await.unwrap_err();
    assert_eq!(opened.stream.session.state.lock().lost.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_without_a_session_may_hold_permits_as_long_as_it_renews_them() {
    let (_faults, coordinator) = semaphore().await;
    let own = owner("x");
    let grant = granted(&coordinator, &permits(1, &own))
        .await
        .take()
        .unwrap();
    let request = RenewPermits {
        name: name("s"),
        owner: own.clone(),
        ids: grant.ids.to_vec(),
        lease: None,
    };
    for _ in 0..4 {
        tokio::time::advance(grant.lease / 2).await;
        renew(&coordinator.core, &request).await.unwrap();
    }
    assert!(coordinator.core.sessionless.may_hold(own.field()));
}
