//! A coordinator as a whole.

use lockkeeper_access::Account;
use lockkeeper_store::{
    host::embedded::{Clock, EmbeddedStore},
    script::Mode,
};

use super::{Caller, SECOND, acquire, acquire_all, config, granted, owner, start};
use crate::{coordinator::Coordinator, multi, multi::request::AcquireAll};

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
