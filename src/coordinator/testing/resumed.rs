//! Sessions that are resumed, and what they hold then.

use std::{collections::BTreeMap, sync::Arc};

use lockkeeper_access::Account;
use lockkeeper_store::script::{Mode, Note};

use super::{
    SECOND, acquire,
    faults::{Faults, start_faulty},
    granted, holders, in_session, name, open, settle,
};
use crate::{
    coordinator::Coordinator,
    events::What,
    lock::request::Acquire,
    resume_check::{Resumed, ResumedGrant, ResumedPermits},
    stream::Opened,
    testing::config,
    types::Grant,
    watchdog,
};

fn note(text: Option<&str>) -> Option<Arc<Note>> {
    let (reason, labels) = (text?.to_owned(), BTreeMap::new());
    Some(Arc::new(Note { reason, labels }))
}

/// A coordinator, and a session that holds this lock, with what its client names.
async fn holding(of: &str, mode: Mode, text: Option<&str>) -> (Faults, Coordinator, Opened, Grant) {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = Acquire {
        note: note(text),
        ..acquire(of, mode, &in_session(&opened, "o"))
    };
    let grant = granted(&coordinator, &request).await.take().unwrap();
    (faults, coordinator, opened, grant)
}

/// What a client that holds these grants names.
pub(crate) fn named(grants: &[&Grant]) -> Resumed {
    let locks = grants.iter().map(|grant| ResumedGrant {
        name: grant.name.clone(),
        mode: grant.mode,
        owner: grant.owner.clone(),
        watched: true,
        fencing_token: grant.fencing_token,
        hold_count: grant.hold_count,
        is_permitted: true,
    });
    Resumed {
        locks: locks.collect(),
        permits: Vec::new(),
    }
}

/// Breaks the stream of a session, and resumes it.
async fn resume(coordinator: &Coordinator, opened: Opened, named: Resumed) -> Opened {
    let (id, token) = (opened.stream.id().clone(), opened.resume_token);
    drop(opened.stream);
    let resumed = coordinator.resume(Account::default(), &id, &token, named);
    resumed.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_a_resuming_client_does_not_name_is_released_in_the_store() {
    let (_faults, coordinator, opened, grant) = holding("a", Mode::Exclusive, None).await;
    let other = acquire("b", Mode::Exclusive, &grant.owner);
    granted(&coordinator, &other).await.take().unwrap();
    let resumed = resume(&coordinator, opened, named(&[&grant])).await;
    settle().await;
    assert_eq!(resumed.grants.len(), 1);
    assert_eq!(holders(&coordinator.core, "a").await.len(), 1);
    assert!(holders(&coordinator.core, "b").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_resume_waits_for_operations_on_what_is_named() {
    let (faults, coordinator, opened, grant) = holding("a", Mode::Exclusive, None).await;
    let under_way = coordinator.core.owner_lock(&grant.name, &grant.owner).await;
    let resumed = resume(&coordinator, opened, named(&[&grant]));
    tokio::pin!(resumed);
    let early = tokio::time::timeout(SECOND, resumed.as_mut()).await;
    assert!(early.is_err() && faults.calls("lock_renew") == 0);
    drop(under_way);
    assert_eq!(resumed.await.grants.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_a_resume_has_confirmed_stays_although_nobody_took_its_answer() {
    let (_faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, "o"));
    let delivery = granted(&coordinator, &request).await;
    let resumed = resume(&coordinator, opened, named(&[delivery.grant()])).await;
    drop(delivery);
    settle().await;
    assert_eq!(holders(&coordinator.core, "a").await.len(), 1);
    assert_eq!(resumed.stream.names(), [name("a")]);
}

#[tokio::test(start_paused = true)]
async fn a_resume_waits_for_operations_on_permits_that_are_named() {
    let (faults, coordinator, opened, grant) = holding("a", Mode::Exclusive, None).await;
    let permits = ResumedPermits {
        name: name("s"),
        owner: grant.owner,
        ids: [rand::random()].into(),
        watched: true,
        is_permitted: true,
    };
    let under_way = coordinator.core.owner_lock(&permits.name, &permits.owner);
    let under_way = under_way.await;
    let named = Resumed {
        permits: vec![permits],
        ..named(&[])
    };
    let resumed = resume(&coordinator, opened, named);
    tokio::pin!(resumed);
    let early = tokio::time::timeout(SECOND, resumed.as_mut()).await;
    assert!(early.is_err() && faults.calls("permit_renew") == 0);
    drop(under_way);
    assert!(resumed.await.permits.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_a_resuming_client_has_not_read_is_told_to_watchers_once() {
    // Whether the client takes the lock again after the loss, and all that watchers hear of.
    for (is_again, expected) in [(false, 1), (true, 2)] {
        let (_faults, coordinator, store) = start_faulty(config());
        coordinator.keep_history();
        let opened = open(&coordinator);
        let request = acquire("a", Mode::Exclusive, &in_session(&opened, "o"));
        let mut grant = granted(&coordinator, &request).await.take().unwrap();
        store.flush_all();
        watchdog::renew_all(&coordinator.core).await;
        if is_again {
            grant = granted(&coordinator, &request).await.take().unwrap();
            store.flush_all();
        }
        let resumed = resume(&coordinator, opened, named(&[&grant])).await;
        let told = coordinator.recent();
        let lost = told.filter(|it| matches!(it.event.what, What::Lost(_)));
        assert_eq!(lost.count(), expected);
        assert_eq!(resumed.stream.session.state.lock().lost.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn resumed_grants_have_the_notes_of_their_own_owners() {
    for mode in [Mode::Read, Mode::Exclusive] {
        let (faults, coordinator, opened, first) = holding("a", mode, Some("first")).await;
        let of = if mode == Mode::Read { "a" } else { "b" };
        let request = Acquire {
            note: note(Some("second")),
            ..acquire(of, mode, &in_session(&opened, "n"))
        };
        let second = granted(&coordinator, &request).await.take().unwrap();
        let resumed = resume(&coordinator, opened, named(&[&first, &second])).await;
        let notes = resumed.grants.iter().map(|it| it.note.as_deref());
        let notes = notes.map(|note| note.map(|it| it.reason.as_str()));
        let notes: Vec<_> = notes.collect();
        assert_eq!(notes, [Some("first"), Some("second")], "{mode:?}");
        assert_eq!(faults.calls("lock_inspect"), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_without_notes_looks_nothing_up_and_is_told_once() {
    let (faults, coordinator, opened, grant) = holding("a", Mode::Exclusive, None).await;
    let resumed = resume(&coordinator, opened, named(&[&grant])).await;
    assert_eq!(resumed.grants[0].note, None);
    assert_eq!(faults.calls("lock_inspect"), 0);
    settle().await;
    assert_eq!(
        faults.calls("holders_tell"),
        1,
        "an earlier resume may have left a stream elsewhere"
    );
}
