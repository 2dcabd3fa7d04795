//! Resumes that meet what happens at the same time, here and at other coordinators.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Account;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_store::{
    host::embedded::EmbeddedStore,
    script::{Mode, Moved},
};
use tokio::time::{sleep, timeout};

use super::{
    Caller, Fault, Faults, MILLI, SECOND, acquire, config, granted, holders, in_session, name,
    named, one_hold, open, owner, settle, start_faulty, two_on_one_store,
};
use crate::{
    admin::Reason,
    coordinator::Coordinator,
    error::{Error, Limit},
    lock,
    resume_check::Resumed,
    session::Notice,
    stream::Opened,
    types::{Grant, LostReason, Owner, SessionId},
};

async fn hold(coordinator: &Coordinator, of: &str, owner: &Owner) -> Grant {
    let request = acquire(of, Mode::Exclusive, owner);
    granted(coordinator, &request).await.take().unwrap()
}

async fn release(coordinator: &Coordinator, of: &str, owner: &Owner) {
    let request = one_hold(of, Mode::Exclusive, owner);
    lock::release::release(&coordinator.core, &request)
        .await
        .unwrap();
}

async fn resume(
    coordinator: &Coordinator,
    id: &SessionId,
    token: &[u8],
    named: Resumed,
) -> Result<Opened, Error> {
    let resumed = coordinator.resume(Account::default(), id, token, named);
    resumed.await
}

/// A coordinator, and a session of another one that holds a lock, and whose stream has broken.
async fn broken_elsewhere() -> (Faults, Coordinator, (SessionId, Vec<u8>), Grant) {
    let (faults, [left, there]) = two_on_one_store(true);
    settle().await;
    let opened = open(&there);
    let grant = hold(&there, "a", &in_session(&opened, "")).await;
    let id = opened.stream.id().clone();
    (faults, left, (id, opened.resume_token), grant)
}

fn is_over(opened: &Opened) -> bool {
    opened.stream.superseded().is_cancelled()
}

/// The names of the grants that are reported as lost, with the reasons.
async fn losses(opened: &Opened) -> Vec<(String, LostReason)> {
    let mut lost = Vec::new();
    while let Ok(notice) = timeout(SECOND, opened.stream.notice()).await {
        if let Notice::Lost(grant, reason) = notice.unwrap() {
            lost.push((grant.name.to_string(), reason));
        }
    }
    lost
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_lost_while_its_session_is_resumed_is_not_held_again() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let a = hold(&coordinator, "a", &own).await;
    let b = hold(&coordinator, "b", &own).await;
    // The client does not know that b is gone, and why it is takes long to find out.
    release(&coordinator, "b", &own).await;
    faults.next("lock_forced", Fault::AnswerTakes(SECOND));
    let (id, token) = (opened.stream.id().clone(), opened.resume_token);
    drop(opened.stream);
    let grants = named(&[&a, &b]);
    let resumed = resume(&coordinator, &id, &token, grants);
    let meanwhile = async {
        sleep(SECOND / 2).await;
        let reason = Reason::parse("why").unwrap();
        let forced = coordinator.force_release(&a.name, &reason, Duration::ZERO);
        assert_eq!(forced.await.unwrap().holder_count, 1);
        hold(&coordinator, "a", &owner("other")).await;
    };
    let (resumed, ()) = tokio::join!(resumed, meanwhile);
    let resumed = resumed.unwrap();
    assert!(resumed.grants.is_empty(), "{:?}", resumed.grants);
    let forced = LostReason::ForceReleased {
        reason: "why".into(),
        closed_until: None,
        preempted: false,
    };
    let expected = [("a", forced), ("b", LostReason::Expired)];
    let expected = expected.map(|(of, reason)| (of.to_owned(), reason));
    assert_eq!(losses(&resumed).await, expected);
    assert!(resumed.stream.names().is_empty());
    assert_eq!(
        holders(&coordinator.core, "a").await,
        [("other".to_owned(), 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_resume_has_renewed_and_its_session_has_lost_meanwhile_is_released() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let a = hold(&coordinator, "a", &own).await;
    let b = hold(&coordinator, "b", &own).await;
    release(&coordinator, "b", &own).await;
    sleep(SECOND * 5).await;
    let (id, token) = (opened.stream.id().clone(), opened.resume_token);
    drop(opened.stream);
    sleep(SECOND * 24).await;
    // The resume renews a, and the lease that the session knows of ends before its answer.
    faults.next("lock_forced", Fault::AnswerTakes(SECOND));
    let resumed = resume(&coordinator, &id, &token, named(&[&a, &b])).await;
    let resumed = resumed.unwrap();
    assert!(resumed.grants.is_empty(), "{:?}", resumed.grants);
    let expected = ["a", "b"].map(|of| (of.to_owned(), LostReason::Expired));
    assert_eq!(losses(&resumed).await, expected);
    settle().await;
    assert!(holders(&coordinator.core, "a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn losses_from_before_a_resume_are_forgotten() {
    let (_faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let earlier = hold(&coordinator, "a", &own).await;
    let reason = Reason::parse("why").unwrap();
    let forced = coordinator.force_release(&earlier.name, &reason, Duration::ZERO);
    forced.await.unwrap();
    let later = hold(&coordinator, "a", &own).await;
    let (id, token) = (opened.stream.id().clone(), opened.resume_token);
    drop(opened.stream);
    let resumed = resume(&coordinator, &id, &token, named(&[&later])).await;
    let resumed = resumed.unwrap();
    assert_eq!(resumed.grants.len(), 1);
    assert_eq!(losses(&resumed).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_resumed_while_a_drain_begins_is_told_to_go_away() {
    let (faults, left, (id, token), grant) = broken_elsewhere().await;
    faults.next("session_ended", Fault::AnswerTakes(SECOND));
    let resumed = resume(&left, &id, &token, named(&[&grant]));
    let drained = async {
        settle().await;
        left.drain(SECOND * 5).await;
    };
    let (resumed, ()) = tokio::join!(resumed, drained);
    let resumed = resumed.unwrap();
    let notice = timeout(SECOND, resumed.stream.notice()).await.unwrap();
    assert!(matches!(notice, Ok(Notice::GoingAway)), "{notice:?}");
}

/// The answer to the first resume was lost, and so was the end of its stream.
#[tokio::test(start_paused = true)]
async fn of_two_resumes_with_one_token_the_later_one_stays() {
    for back in [false, true] {
        let (_faults, [left, there]) = two_on_one_store(true);
        settle().await;
        let opened = open(&left);
        let own = in_session(&opened, "");
        let grant = hold(&left, "a", &own).await;
        hold(&there, "w", &owner("x")).await;
        let (id, token) = (opened.stream.id().clone(), opened.resume_token);
        drop(opened.stream);
        let (from, to) = if back {
            (&there, &left)
        } else {
            (&left, &there)
        };
        let first = resume(from, &id, &token, named(&[&grant])).await.unwrap();
        let core = Arc::clone(&from.core);
        let request = acquire("w", Mode::Exclusive, &own);
        let waits = spawn_detached("waits", async move {
            let mut caller = Caller::default();
            let waited = lock::acquire::acquire(&core, &request, &mut caller);
            waited.await.map(drop)
        });
        settle().await;
        assert!(!waits.is_finished());
        let second = resume(to, &id, &token, named(&[&grant])).await.unwrap();
        settle().await;
        assert!(is_over(&first) && !is_over(&second));
        assert_eq!(waits.await.unwrap(), Err(Error::SessionSuperseded));
        release(&there, "w", &owner("x")).await;
        settle().await;
        assert_eq!(holders(&there.core, "w").await, []);
        let grants = second.grants;
        assert_eq!(grants.len(), 1);
        // Its latest token leads on.
        let third = resume(from, &id, &second.resume_token, named(&[&grants[0]])).await;
        assert_eq!(third.unwrap().grants.len(), 1);
        settle().await;
        assert!(second.stream.superseded().is_cancelled());
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_of_an_earlier_resume_that_comes_late_leaves_the_later_one_alone() {
    let (faults, [left, there]) = two_on_one_store(true);
    settle().await;
    let opened = open(&left);
    let (id, token) = (opened.stream.id().clone(), opened.resume_token);
    // It hears of its own resume only after a while.
    for _ in 0..3 {
        faults.next("holders_tell", Fault::Unavailable);
    }
    let resumed = resume(&left, &id, &token, Resumed::default()).await;
    let resumed = resumed.unwrap();
    let tell = |generation| {
        left.core.on_moved(&Moved {
            session: id.as_str().to_owned(),
            generation,
            from: there.core.attempts.next(),
        });
        is_over(&resumed)
    };
    assert!(!tell(0) && !tell(1), "told before this resume");
    sleep(SECOND * 5).await;
    assert!(!tell(0), "of an earlier token");
    assert!(tell(1), "told after this resume");
}

#[tokio::test(start_paused = true)]
async fn if_two_resumes_are_told_at_once_any_coordinator_accepts_what_the_client_has() {
    let (faults, [left, there]) = two_on_one_store(true);
    settle().await;
    let opened = open(&left);
    let (id, token) = (opened.stream.id().clone(), opened.resume_token);
    drop(opened.stream);
    faults.next("holders_tell", Fault::RequestLost);
    let first = resume(&left, &id, &token, Resumed::default());
    let second = resume(&there, &id, &token, Resumed::default());
    let (first, second) = tokio::join!(first, second);
    let both = [first.unwrap(), second.unwrap()];
    sleep(SECOND).await;
    let left_over = both.iter().filter(|it| !is_over(it)).count();
    assert!(left_over <= 1);
    for opened in both {
        let again = resume(&there, &id, &opened.resume_token, Resumed::default());
        assert!(!is_over(&again.await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_is_held_counts_when_a_session_is_resumed() {
    let store = EmbeddedStore::default();
    let of_at_most = |grants| {
        let mut config = config();
        config.limits.grants_per_session_max = grants;
        Faults::default().start(config, &store)
    };
    let [coordinator, smaller] = [2, 1].map(of_at_most);
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let held = [
        hold(&coordinator, "a", &own).await,
        hold(&coordinator, "b", &own).await,
    ];
    let uncertain = ["c", "d"].map(|of| Grant {
        name: name(of),
        ..held[0].clone()
    });
    let all: Vec<_> = held.iter().chain(&uncertain).collect();
    let (id, token) = (opened.stream.id().clone(), opened.resume_token);
    drop(opened.stream);
    let refused = resume(&smaller, &id, &token, named(&all)).await;
    let full = Error::LimitReached(Limit::GrantsPerSession);
    assert_eq!(refused.err(), Some(full));
    let resumed = resume(&coordinator, &id, &token, named(&all))
        .await
        .unwrap();
    assert_eq!(resumed.grants.len(), 2);
    assert_eq!(losses(&resumed).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_the_caller_may_not_hold_any_more_is_lost_and_ends_with_its_lease() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = in_session(&opened, "");
    let a = hold(&coordinator, "a", &own).await;
    let b = hold(&coordinator, "b", &own).await;
    let (id, token) = (opened.stream.id().clone(), opened.resume_token);
    drop(opened.stream);
    let mut named = named(&[&a, &b]);
    named.locks[1].is_permitted = false;
    let resumed = resume(&coordinator, &id, &token, named).await.unwrap();
    assert_eq!(resumed.grants.len(), 1);
    assert_eq!(
        losses(&resumed).await,
        [("b".to_owned(), LostReason::Expired)]
    );
    assert_eq!(faults.calls("lock_forced"), 0);
    assert_eq!(holders(&coordinator.core, "b").await.len(), 1);
    sleep(SECOND * 31).await;
    assert_eq!(holders(&coordinator.core, "b").await, []);
    assert_eq!(holders(&coordinator.core, "a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_resume_of_a_session_that_only_this_coordinator_can_have_is_not_told() {
    let (faults, coordinator, _store) = start_faulty(config());
    let account = Account::default();
    let release = crate::types::OnDisconnect::Release;
    let opened = coordinator.open(account, None, String::new(), release);
    let opened = opened.unwrap();
    let (id, token) = (opened.stream.id().clone(), opened.resume_token.clone());
    let resumed = resume(&coordinator, &id, &token, Resumed::default()).await;
    assert!(is_over(&opened) && !is_over(&resumed.unwrap()));
    sleep(MILLI * 10).await;
    assert_eq!(faults.calls("holders_tell"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_on_without_the_record_of_its_end_if_it_holds_anything() {
    let (faults, left, (id, token), grant) = broken_elsewhere().await;
    faults.next("session_ended", Fault::Unavailable);
    let refused = resume(&left, &id, &token, Resumed::default()).await;
    assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
    faults.next("session_ended", Fault::Unavailable);
    let resumed = resume(&left, &id, &token, named(&[&grant])).await.unwrap();
    assert_eq!(resumed.grants.len(), 1);
}
