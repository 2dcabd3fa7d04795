//! Sessions that are resumed, and what they hold then.

use std::{collections::BTreeMap, sync::Arc};

use lockkeeper_access::Account;
use lockkeeper_store::script::{Mode, Note};

use super::{
    SECOND, acquire,
    faults::{Faults, start_faulty},
    granted, holders, in_session, open, settle,
};
use crate::{
    coordinator::Coordinator,
    lock::request::Acquire,
    resume::{Resumed, ResumedGrant},
    stream::Opened,
    testing::config,
    types::Grant,
};

/// A coordinator, and a session that holds this lock, with what its client names.
async fn holding(of: &str, mode: Mode, note: Option<&str>) -> (Faults, Coordinator, Opened, Grant) {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let request = Acquire {
        note: note.map(|text| {
            let (reason, labels) = (text.to_owned(), BTreeMap::new());
            Arc::new(Note { reason, labels })
        }),
        ..acquire(of, mode, &in_session(&opened, "o"))
    };
    let grant = granted(&coordinator, &request).await.take().unwrap();
    (faults, coordinator, opened, grant)
}

fn named(grants: &[&Grant]) -> Resumed {
    let locks = grants.iter().map(|grant| ResumedGrant {
        name: grant.name.clone(),
        mode: grant.mode,
        owner: grant.owner.clone(),
        watched: true,
        fencing_token: grant.fencing_token,
        hold_count: grant.hold_count,
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
async fn a_resumed_grant_has_the_note_of_its_own_owner() {
    for mode in [Mode::Read, Mode::Exclusive] {
        let (faults, coordinator, opened, grant) = holding("a", mode, Some("own")).await;
        if mode == Mode::Read {
            for label in ["n", "p"] {
                let other = Acquire {
                    note: Some(Arc::new(Note {
                        reason: "other".to_owned(),
                        labels: BTreeMap::new(),
                    })),
                    ..acquire("a", mode, &in_session(&opened, label))
                };
                granted(&coordinator, &other).await.take().unwrap();
            }
        }
        let resumed = resume(&coordinator, opened, named(&[&grant])).await;
        let note = resumed.grants[0].note.as_deref();
        assert_eq!(note.map(|it| it.reason.as_str()), Some("own"), "{mode:?}");
        assert_eq!(faults.calls("lock_inspect"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_note_nothing_is_looked_up() {
    let (faults, coordinator, opened, grant) = holding("a", Mode::Exclusive, None).await;
    let resumed = resume(&coordinator, opened, named(&[&grant])).await;
    assert_eq!(resumed.grants[0].note, None);
    assert_eq!(faults.calls("lock_inspect"), 0);
}
