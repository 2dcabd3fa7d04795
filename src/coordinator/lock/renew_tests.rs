use futures::FutureExt as _;
use lockkeeper_store::script::Mode;

use super::*;
use crate::{
    lock::request::Acquire,
    testing::{
        Fault, SECOND, acquire, config, granted, in_session, name, one_hold, open, start_faulty,
    },
    types::{Owner, tests::limits},
};

fn lease(seconds: u32) -> Lease {
    Lease::new(SECOND * seconds, &limits()).unwrap()
}

fn renewal_of(owner: &Owner) -> Renew {
    Renew {
        name: name("a"),
        mode: Mode::Exclusive,
        owner: owner.clone(),
        lease: Some(lease(50)),
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_changes_no_newer_grant_of_its_owner() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let request = acquire("a", Mode::Exclusive, &own);
    granted(&coordinator, &request).await.take().unwrap();
    faults.next("lock_renew", Fault::AnswerTakes(SECOND));
    let mut renewed = coordinator.renew(renewal_of(&own));
    assert!((&mut renewed).now_or_never().is_none());
    coordinator
        .release(one_hold("a", Mode::Exclusive, &own))
        .await
        .unwrap();
    let request = Acquire {
        lease: Some(lease(10)),
        ..request
    };
    let newer = granted(&coordinator, &request).await.take().unwrap();
    let refused = Some(Error::NotOwner(Ownership::Expired));
    assert_eq!(renewed.await.err(), refused, "its grant has ended");
    let session = coordinator.core.session_of(&own).unwrap().unwrap();
    let known = session.grant(&GrantKey::of(&newer)).unwrap();
    assert_eq!(
        (known.safe_until, known.lease),
        (newer.safe_until, newer.lease)
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_release_on_its_way_ends_is_no_loss() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let request = acquire("a", Mode::Exclusive, &own);
    granted(&coordinator, &request).await.take().unwrap();
    faults.next("lock_release", Fault::AnswerTakes(SECOND));
    let mut released = coordinator.release(one_hold("a", Mode::Exclusive, &own));
    assert!((&mut released).now_or_never().is_none());
    let renewed = coordinator.renew(renewal_of(&own)).await;
    assert!(matches!(renewed, Err(Error::NotOwner(_))), "{renewed:?}");
    assert_eq!(released.await, Ok(0));
    let notice = tokio::time::timeout(SECOND, opened.stream.notice()).await;
    assert!(notice.is_err(), "{notice:?}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_in_another_mode_says_that_the_caller_holds_the_lock() {
    let (_faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let rows = [
        ("o", Ownership::HeldInAnotherMode),
        ("p", Ownership::HeldByAnother),
    ];
    let request = acquire("a", Mode::Read, &in_session(&opened, "o"));
    granted(&coordinator, &request).await.take().unwrap();
    for (label, expected) in rows {
        let renewed = coordinator.renew(renewal_of(&in_session(&opened, label)));
        assert_eq!(renewed.await.err(), Some(Error::NotOwner(expected)));
    }
}
