use std::time::Duration;

use lockkeeper_store::script::Mode;

use super::*;
use crate::testing::{
    Caller, Fault, MILLI, SECOND, acquire, acquire_all, config, granted, in_session, open, owner,
    start, start_faulty,
};

/// Locks that were taken now.
fn taken(core: &Arc<Core>, deliveries: Vec<Delivery>) -> Taken<'_> {
    Taken {
        core,
        session: None,
        deliveries,
        since: Instant::now(),
    }
}

#[tokio::test(start_paused = true)]
async fn locks_are_renewed_once_more_than_a_tenth_of_their_lease_has_passed() {
    let (faults, coordinator, _store) = start_faulty(config());
    let delivery = granted(&coordinator, &acquire("a", Mode::Fair, &owner("x"))).await;
    let mut taken = taken(&coordinator.core, vec![delivery]);
    tokio::time::advance(SECOND * 3).await;
    assert!(taken.refresh().await.unwrap());
    assert_eq!(faults.calls("lock_renew"), 0);
    tokio::time::advance(MILLI).await;
    assert!(taken.refresh().await.unwrap());
    assert_eq!(faults.calls("lock_renew"), 1);
}

#[tokio::test(start_paused = true)]
async fn locks_are_held_until_one_is_lost_or_its_safe_time_ends() {
    let coordinator = start(config());
    let both = [
        granted(&coordinator, &acquire("a", Mode::Fair, &owner("x"))).await,
        granted(&coordinator, &acquire("b", Mode::Fair, &owner("x"))).await,
    ];
    let end = both[0].grant().safe_until;
    let taken = taken(&coordinator.core, both.into());
    assert!(taken.are_held());
    let left = end.saturating_duration_since(Instant::now());
    tokio::time::advance(left.saturating_sub(MILLI)).await;
    assert!(taken.are_held());
    taken.deliveries[1].lost.set();
    assert!(!taken.are_held());
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_not_held_when_its_safe_time_is_over() {
    let coordinator = start(config());
    let mut delivery = granted(&coordinator, &acquire("a", Mode::Fair, &owner("x"))).await;
    for (left, is_held) in [(MILLI, true), (Duration::ZERO, false)] {
        let safe_until = Instant::now() + left;
        delivery.set_grant(Grant {
            safe_until,
            ..delivery.grant().clone()
        });
        let taken = taken(&coordinator.core, vec![delivery]);
        assert_eq!(taken.are_held(), is_held, "{left:?}");
        delivery = taken.deliveries.into_iter().next().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_session_the_watchdog_renews_and_the_delivery_follows() {
    let coordinator = start(config());
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Fair, &in_session(&opened, ""));
    let delivery = granted(&coordinator, &request).await;
    let (name, before) = (delivery.grant().name.clone(), delivery.grant().safe_until);
    let mut taken = Taken {
        session: Some(Arc::clone(&opened.stream.session)),
        ..taken(&coordinator.core, vec![delivery])
    };
    tokio::time::sleep(SECOND * 11).await;
    assert!(taken.refresh().await.unwrap());
    assert!(taken.deliveries[0].grant().safe_until > before);
    let key = GrantKey::new(&name, Mode::Fair, &request.owner.label);
    let deadlines = &coordinator.core.deadlines;
    opened.stream.session.set_holds(deadlines, &key, 0, None);
    assert!(!taken.refresh().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_owner_without_a_session_is_known_to_hold_what_is_renewed_for_it() {
    let coordinator = start(config());
    let own = owner("x");
    let delivery = granted(&coordinator, &acquire("a", Mode::Fair, &own)).await;
    let lease = delivery.grant().lease;
    let mut taken = taken(&coordinator.core, vec![delivery]);
    for _ in 0..4 {
        tokio::time::advance(lease / 2).await;
        assert!(taken.renew().await.unwrap());
    }
    assert!(coordinator.core.sessionless.may_hold(own.field()));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_ends_no_wait_while_the_locks_are_valid() {
    // Refused renewals, how long the wait may take, and whether it ends with the locks.
    for (refused, wait, is_granted) in [(1, 60, true), (9, 6, false)] {
        let (faults, coordinator, _store) = start_faulty(config());
        let held = granted(&coordinator, &acquire("b", Mode::Fair, &owner("y"))).await;
        let both = [("a", Mode::Fair), ("b", Mode::Fair)];
        let request = acquire_all(&both, &owner("z"));
        let deadline = Instant::now() + SECOND * wait;
        let mut caller = Caller::default();
        let waits = super::acquire(&coordinator.core, &request, Some(deadline), &mut caller);
        let gives_back = async {
            tokio::time::sleep(SECOND * 5).await;
            for _ in 0..refused {
                faults.next("lock_renew", Fault::Unavailable);
            }
            drop(held);
        };
        let (ended, ()) = tokio::join!(waits, gives_back);
        assert_eq!(ended.is_ok_and(|it| it.is_ok()), is_granted, "{refused}");
        assert!(Instant::now() <= deadline);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_its_owner_has_taken_again_meanwhile_is_another_grant() {
    let (_faults, coordinator, store) = start_faulty(config());
    let request = acquire("a", Mode::Fair, &owner("x"));
    let delivery = granted(&coordinator, &request).await;
    let mut taken = taken(&coordinator.core, vec![delivery]);
    assert!(taken.renew().await.unwrap());
    store.flush_all();
    tokio::time::advance(MILLI).await;
    granted(&coordinator, &request).await.take().unwrap();
    assert!(!taken.renew().await.unwrap());
}
