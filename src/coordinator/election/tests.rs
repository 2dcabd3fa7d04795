//! Observers of an election at the coordinator of its leader.

use lockkeeper_access::{Account, Quotas};
use lockkeeper_store::script::Mode;

use super::{
    lead::{proclaim, resign},
    observe::Observer,
    outcome::Observed,
    request::{ElectionValue, Proclaim},
};
use crate::{
    coordinator::Coordinator,
    testing::{
        Fault, MILLI, SECOND, account, acquire, config, granted, in_session, name, one_hold, open,
        start_faulty,
    },
    types::{Grant, Owner},
};

/// This owner leads now.
async fn lead(coordinator: &Coordinator, owner: &Owner) -> Grant {
    let request = acquire("e", Mode::Fair, owner);
    granted(coordinator, &request).await.take().unwrap()
}

async fn say(coordinator: &Coordinator, leader: &Grant, value: &str) {
    let request = Proclaim {
        name: name("e"),
        owner: leader.owner.clone(),
        term: leader.fencing_token,
        value: ElectionValue::parse(value).unwrap(),
    };
    proclaim(&coordinator.core, &request).await.unwrap();
}

async fn seen(observer: &mut Observer) -> String {
    match observer.next().await.unwrap() {
        Observed::Leader(leadership) => leadership.value,
        other => format!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_at_once_what_is_done_at_its_own_coordinator() {
    let (faults, coordinator, _store) = start_faulty(config());
    faults.deafen();
    let opened = open(&coordinator);
    let begun = coordinator.observe(name("e"), None, &Account::default());
    let mut observer = begun.unwrap();
    assert_eq!(seen(&mut observer).await, "NoLeader");
    let leader = lead(&coordinator, &in_session(&opened, "")).await;
    let at_once = MILLI * 10;
    for value in ["1", "2"] {
        say(&coordinator, &leader, value).await;
        let seen = tokio::time::timeout(at_once, seen(&mut observer));
        assert_eq!(seen.await.unwrap(), value);
    }
    let request = one_hold("e", Mode::Fair, &leader.owner);
    resign(&coordinator.core, &request).await.unwrap();
    let seen = tokio::time::timeout(at_once, seen(&mut observer));
    assert_eq!(seen.await.unwrap(), "NoLeader");
}

#[tokio::test(start_paused = true)]
async fn an_observer_rides_out_a_store_that_is_away_but_not_at_first() {
    let (faults, coordinator, _store) = start_faulty(config());
    let opened = open(&coordinator);
    let observe = || coordinator.observe(name("e"), None, &Account::default());
    faults.next("election_inspect", Fault::Unavailable);
    faults.next("election_inspect", Fault::Unavailable);
    assert!(observe().unwrap().next().await.is_err());
    let mut observer = observe().unwrap();
    tokio::time::sleep(SECOND * 2).await;
    assert_eq!(seen(&mut observer).await, "NoLeader");
    let leader = lead(&coordinator, &in_session(&opened, "")).await;
    // The look that is shared shows the change, and that of the observer fails twice.
    faults.next("election_inspect", Fault::AnswerTakes(MILLI));
    faults.next("election_inspect", Fault::Unavailable);
    faults.next("election_inspect", Fault::Unavailable);
    say(&coordinator, &leader, "1").await;
    assert_eq!(seen(&mut observer).await, "1");
}

#[tokio::test(start_paused = true)]
async fn an_observer_counts_as_a_waiter_as_long_as_it_is_there() {
    let (_faults, coordinator, _store) = start_faulty(config());
    let account = account(Quotas {
        waiters: 1,
        ..Quotas::default()
    });
    let observe = || coordinator.observe(name("e"), None, &account);
    let first = observe().unwrap();
    assert!(observe().is_err());
    drop(first);
    assert!(observe().is_ok());
}
