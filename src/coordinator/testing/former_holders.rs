//! Former holders of a lock that was released by force and stays closed for them.

use std::time::Duration;

use lockkeeper_access::Account;
use lockkeeper_store::script::{Mode, Refusal};
use tokio::time::Instant;

use super::{
    MILLI, SECOND, acquire, granted, in_session, locks, name, one_hold, open, owner, settle, start,
    two_on_one_store,
};
use crate::{
    admin::Reason,
    coordinator::Coordinator,
    lock::{
        attempt::{Attempted, attempt},
        release::release,
        request::Acquire,
    },
    multi::{release::release_all, request::ReleaseAll},
    session::notices::Notice,
    types::{Lease, LostReason, OnDisconnect, Owner, tests::limits},
    yields::RequestYield,
};

fn reason() -> Reason {
    Reason::parse("maintenance").unwrap()
}

/// Releases the lock by force, and leaves its holder some time.
async fn force(coordinator: &Coordinator) {
    let (of, reason) = (name("a"), reason());
    let forced = coordinator.force_release(&of, &reason, SECOND * 25).await;
    assert!(forced.unwrap().closed_until.is_some());
}

fn all_of(owner: &Owner) -> ReleaseAll {
    ReleaseAll {
        locks: locks(&[("a", Mode::Exclusive)]),
        owner: owner.clone(),
        request_id: None,
    }
}

/// After how long another owner gets the lock, to half a second.
async fn opens_after(coordinator: &Coordinator) -> Duration {
    let (request, begun) = (
        acquire("a", Mode::Exclusive, &owner("next")),
        Instant::now(),
    );
    loop {
        let tried = attempt(&coordinator.core, &request, Refusal::Forgotten, None).await;
        if matches!(tried.unwrap(), Attempted::Granted(_)) {
            return begun.elapsed();
        }
        tokio::time::sleep(MILLI * 500).await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_release_by_a_former_holder_opens_the_lock_and_says_why_it_is_lost() {
    // By ReleaseAll or Release, and whether the holder heard of its loss before.
    for (all, hears) in [(true, false), (true, true), (false, false)] {
        let (_faults, [left, there]) = two_on_one_store(hears);
        settle().await;
        let opened = open(&left);
        let own = in_session(&opened, "o");
        let request = acquire("a", Mode::Exclusive, &own);
        granted(&left, &request).await.take().unwrap();
        force(&there).await;
        settle().await;
        if all {
            release_all(&left.core, &all_of(&own)).await.unwrap_err();
        } else {
            release(&left.core, &one_hold("a", Mode::Exclusive, &own))
                .await
                .unwrap_err();
        }
        assert_eq!(opens_after(&there).await, Duration::ZERO, "{all} {hears}");
        let Notice::Lost(_, why) = opened.stream.notice().await.unwrap() else {
            panic!("no loss");
        };
        assert_eq!(why.detail(), Some("maintenance"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_preempted_holder_without_a_session_opens_the_lock_too() {
    for all in [false, true] {
        let coordinator = start(super::config());
        let own = owner("x");
        let request = Acquire {
            lease: Some(Lease::new(SECOND * 60, &limits()).unwrap()),
            ..acquire("a", Mode::Exclusive, &own)
        };
        granted(&coordinator, &request).await.take().unwrap();
        let asked = coordinator.request_yield(RequestYield {
            name: name("a"),
            by: "me".to_owned(),
            reason: reason(),
            within: SECOND,
            preempt: Some(SECOND * 60),
            for_owner: None,
            account: Account::default(),
        });
        asked.await.unwrap();
        tokio::time::sleep(SECOND * 2).await;
        if all {
            let released = release_all(&coordinator.core, &all_of(&own)).await;
            released.unwrap_err();
        } else {
            release(&coordinator.core, &one_hold("a", Mode::Exclusive, &own))
                .await
                .unwrap_err();
        }
        assert_eq!(opens_after(&coordinator).await, Duration::ZERO, "{all}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_closed_relies_on_no_lost_lock_either() {
    // A broken stream closes the session, or keeps it.
    for (on_disconnect, closes, waits) in [
        (OnDisconnect::Keep, true, 0),
        (OnDisconnect::Release, false, 0),
        (OnDisconnect::Keep, false, 25),
    ] {
        let coordinator = start(super::config());
        let opened = coordinator.open(Account::default(), None, String::new(), on_disconnect);
        let opened = opened.unwrap();
        let request = acquire("a", Mode::Exclusive, &in_session(&opened, "o"));
        granted(&coordinator, &request).await.take().unwrap();
        force(&coordinator).await;
        let Notice::Lost(_, LostReason::ForceReleased { .. }) =
            opened.stream.notice().await.unwrap()
        else {
            panic!("no loss");
        };
        if closes {
            opened.stream.close().await;
        }
        drop(opened);
        settle().await;
        let after = opens_after(&coordinator).await;
        assert_eq!(after.as_secs(), waits, "{on_disconnect:?} {closes}");
    }
}
