//! Requests to yield, and what becomes of them when sessions move or the store does not answer.

use std::time::Duration;

use lockkeeper_access::{Account, Identity};
use lockkeeper_store::script::Mode;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Fault, SECOND, acquire, config, granted, holders, in_session, name, named, one_hold, open,
    settle, start_faulty, two_on_one_store,
};
use crate::{
    admin::Reason,
    error::{Error, Limit},
    lock,
    session::Notice,
    stream::Opened,
    types::LostReason,
    yield_room::YIELDS_PER_IDENTITY_MAX,
    yields::RequestYield,
};

fn asks(of: &str, within: Duration, preempt: Option<Duration>) -> RequestYield {
    RequestYield {
        name: name(of),
        by: "me".to_owned(),
        reason: Reason::parse("why").unwrap(),
        within,
        preempt,
        for_owner: None,
        account: Account::default(),
    }
}

/// The time until the session is asked; none if it is not.
async fn asked_after(opened: &Opened) -> Option<Duration> {
    let begun = Instant::now();
    let notice = timeout(SECOND * 60, opened.stream.notice()).await.ok()?;
    matches!(notice, Ok(Notice::YieldRequested(..))).then(|| begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_goes_on_elsewhere_is_asked_again() {
    for preempt in [None, Some(SECOND * 60)] {
        let (_faults, [left, there]) = two_on_one_store(true);
        settle().await;
        let opened = open(&left);
        let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
        let grant = granted(&left, &request).await.take().unwrap();
        let within = SECOND * 30;
        let asked = there.request_yield(asks("a", within, preempt)).await;
        assert!(asked.unwrap().holders[0].1);
        assert!(asked_after(&opened).await.is_some());
        sleep(SECOND).await;
        let (id, token) = (opened.stream.id().clone(), opened.resume_token);
        drop(opened.stream);
        let resumed = there.resume(Account::default(), &id, &token, named(&[&grant]));
        let resumed = resumed.await.unwrap();
        let after = asked_after(&resumed).await.unwrap();
        assert!(after <= within / 10, "{after:?}");
        // Later repeats are no news.
        let next = timeout(within * 2, resumed.stream.notice()).await;
        if preempt.is_some() {
            let lost = next.unwrap().unwrap();
            let Notice::Lost(_, LostReason::ForceReleased { preempted, .. }) = lost else {
                panic!("{lost:?}");
            };
            assert!(preempted);
        } else {
            assert!(next.is_err(), "{next:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_with_the_holds_that_were_asked_for() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let request = acquire("a", Mode::Exclusive, &own);
    granted(&coordinator, &request).await.take().unwrap();
    let asked = coordinator
        .request_yield(asks("a", SECOND * 600, None))
        .await;
    assert!(asked.unwrap().holders[0].1);
    let release = one_hold("a", Mode::Exclusive, &own);
    let released = lock::release::release(&coordinator.core, &release).await;
    assert_eq!(released, Ok(0));
    granted(&coordinator, &request).await.take().unwrap();
    sleep(SECOND * 40).await;
    let told = faults.calls("holders_tell");
    sleep(SECOND * 600).await;
    assert_eq!(faults.calls("holders_tell"), told);
}

#[tokio::test(start_paused = true)]
async fn a_preemption_is_repeated_until_the_store_answers() {
    for fault in [Fault::Unavailable, Fault::RequestLost] {
        let (faults, coordinator, _store) = start_faulty(config());
        let opened = open(&coordinator);
        let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
        granted(&coordinator, &request).await.take().unwrap();
        let asked = coordinator.request_yield(asks("a", SECOND, Some(SECOND * 60)));
        asked.await.unwrap();
        faults.next("lock_force", fault);
        sleep(SECOND * 2).await;
        let held = holders(&coordinator.core, "a").await;
        assert!(held.iter().all(|(label, _)| !label.is_empty()), "{held:?}");
        assert_eq!(faults.calls("lock_force"), 2);
        assert!(opened.stream.names().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_identity_leave_room_for_others() {
    let (_faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
    granted(&coordinator, &request).await.take().unwrap();
    let of = |whose: &str| RequestYield {
        account: Account::from(Identity::named(whose)),
        ..asks("a", SECOND * 600, None)
    };
    for _ in 0..YIELDS_PER_IDENTITY_MAX {
        coordinator.request_yield(of("a")).await.unwrap();
    }
    let refused = coordinator.request_yield(of("a")).await;
    assert_eq!(refused.err(), Some(Error::LimitReached(Limit::Yields)));
    assert!(coordinator.request_yield(of("b")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_owner_that_is_to_have_the_lock_is_not_asked_for_it() {
    let (_faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let request = acquire("a", Mode::Exclusive, &own);
    granted(&coordinator, &request).await.take().unwrap();
    let asked = coordinator.request_yield(RequestYield {
        for_owner: Some(own),
        ..asks("a", SECOND * 30, None)
    });
    assert!(asked.await.unwrap().holders.is_empty());
    assert_eq!(asked_after(&opened).await, None);
}
