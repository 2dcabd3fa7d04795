//! A coordinator as a whole.

use std::{ptr, sync::Arc};

use lockkeeper_access::Account;
use lockkeeper_store::{
    host::{
        Wake,
        embedded::{Clock, EmbeddedStore},
    },
    script::Mode,
};

use prometheus_client::{encoding::text::encode, registry::Registry};

use super::{
    Caller, Faults, SECOND, acquire, acquire_all, config, granted, in_session, open, owner, settle,
    start,
};
use crate::{
    coordinator::Coordinator,
    error::Error,
    history::History,
    multi,
    multi::request::AcquireAll,
    resume_check::Resumed,
    types::{LockName, OnDisconnect},
};

#[tokio::test(start_paused = true)]
async fn a_coordinator_says_how_long_it_has_been_running() {
    let coordinator = start(config());
    tokio::time::advance(SECOND * 5).await;
    assert_eq!(coordinator.up_for(), SECOND * 5);
}

#[tokio::test(start_paused = true)]
async fn a_mode_that_a_quorum_lacks_is_refused_before_the_other_locks_are_asked_for() {
    let members = ["1", "2", "3"].map(|name| {
        let store = EmbeddedStore::new(Clock::starting_at(1_700_000_000_000_000));
        (name.to_owned(), store.connect())
    });
    let coordinator = Coordinator::start_on_quorum(config(), members.into());
    let held = acquire("a", Mode::Exclusive, &owner("y"));
    granted(&coordinator, &held).await.take().unwrap();
    let request = AcquireAll {
        wait: Some(SECOND),
        account: Account::default(),
        ..acquire_all(&[("a", Mode::Exclusive), ("b", Mode::Fair)], &owner("x"))
    };
    let mut caller = Caller::default();
    let ended = multi::acquire::acquire_all(&coordinator.core, &request, &mut caller).await;
    assert!(ended.is_err(), "{ended:?}");
    assert!(!caller.waits());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_resumed_elsewhere_ends_here() {
    let store = EmbeddedStore::new(Clock::starting_at(1_700_000_000_000_000));
    let [here, there] = [(); 2].map(|()| Coordinator::start(config(), store.connect()));
    let opened = open(&here);
    settle().await;
    let (id, account) = (opened.stream.id().clone(), Account::default());
    let resumed = there.resume(account, &id, &opened.resume_token, Resumed::default());
    let _resumed = resumed.await.unwrap();
    settle().await;
    assert!(opened.stream.superseded().is_cancelled());
    assert_eq!((here.load().sessions, there.load().sessions), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_closed_is_resumed_nowhere() {
    let store = EmbeddedStore::new(Clock::starting_at(1_700_000_000_000_000));
    let [here, there] = [(); 2].map(|()| Coordinator::start(config(), store.connect()));
    let opened = open(&here);
    opened.stream.close().await;
    let (id, account) = (opened.stream.id().clone(), Account::default());
    let resumed = there.resume(account, &id, &opened.resume_token, Resumed::default());
    assert_eq!(resumed.await.err(), Some(Error::SessionEnded));
}

#[tokio::test(start_paused = true)]
async fn grants_are_looked_at_when_another_server_takes_over_and_not_at_other_messages() {
    let (faults, store) = (Faults::default(), EmbeddedStore::default());
    let (coordinator, wakes) = faults.start_heard(config(), &store);
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
    granted(&coordinator, &request).await.take().unwrap();
    for (wake, looks) in [(Wake::Gap, 0), (Wake::TakenOver, 1)] {
        wakes.send(wake).await.unwrap();
        settle().await;
        assert_eq!(faults.calls("lock_renew"), looks);
    }
}

#[tokio::test(start_paused = true)]
async fn events_cost_nothing_while_nobody_watches() {
    let coordinator = start(config());
    let events = &coordinator.core.events;
    assert!(events.history().is_none());
    events.tell(|| panic!("nobody watches"));
    events.keep_history();
    let request = acquire("a", Mode::Exclusive, &owner("x"));
    granted(&coordinator, &request).await.take().unwrap();
    assert_eq!(events.history().map(History::last), Some(1));
}

/// A name in use shares its memory with nothing that stays when it has ended.
#[tokio::test(start_paused = true)]
async fn events_that_stay_have_texts_of_their_own() {
    let coordinator = start(config());
    coordinator.keep_history();
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
    let grant = granted(&coordinator, &request).await.take().unwrap();
    let is_shared = || {
        let recent = coordinator.recent().next().unwrap();
        assert_eq!(
            (&recent.event.name, &recent.event.owner),
            (&grant.name, &grant.owner)
        );
        let names = [&recent.event.name, &grant.name].map(LockName::shared);
        let labels = [&recent.event.owner.label, &grant.owner.label];
        let sessions = [&recent.event.owner, &grant.owner];
        let sessions = sessions.map(|owner| owner.session.as_ref().unwrap().as_str());
        [
            Arc::ptr_eq(&names[0], &names[1]),
            Arc::ptr_eq(labels[0], labels[1]),
            ptr::eq(sessions[0], sessions[1]),
        ]
    };
    assert_eq!(is_shared(), [true; 3]);
    tokio::time::sleep(SECOND * 21).await;
    assert_eq!(is_shared(), [false; 3]);
}

#[tokio::test(start_paused = true)]
async fn the_history_keeps_the_client_names_of_sessions_that_have_ended() {
    let coordinator = start(config());
    coordinator.core.events.keep_history();
    let (account, keep) = (Account::default(), OnDisconnect::Keep);
    let opened = coordinator.open(account, None, "ci".to_owned(), keep);
    let opened = opened.unwrap();
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
    granted(&coordinator, &request).await.take().unwrap();
    opened.stream.close().await;
    let told: Vec<_> = coordinator.recent().collect();
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|it| it.client_name == "ci"), "{told:?}");
    let held = &coordinator.core.metrics.hold;
    let mut text = String::new();
    let mut registry = Registry::default();
    registry.register("hold", "", held.clone());
    encode(&mut text, &registry).unwrap();
    assert!(text.contains("hold_count 1"), "{text}");
}
