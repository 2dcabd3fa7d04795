use lockkeeper_access::Account;

use super::*;
use crate::{
    semaphore::{
        attempt::{Attempted, attempt},
        request::{AcquirePermits, PermitCount},
    },
    testing::{config, in_session, name, open, settle, start},
};

#[tokio::test(start_paused = true)]
async fn ids_that_are_not_held_cost_no_permit_that_is() {
    let coordinator = start(config());
    let core = &coordinator.core;
    core.scripts.set_permits("s", 3, false).await.unwrap();
    let opened = open(&coordinator);
    let owner = in_session(&opened, "");
    let request = AcquirePermits {
        name: name("s"),
        owner: owner.clone(),
        permits: PermitCount::new(1).unwrap(),
        lease: None,
        wait: None,
        request_id: None,
        min_replica_acks: 0,
        account: Account::default(),
    };
    let Attempted::Granted(delivery) = attempt(core, &request, false).await.unwrap() else {
        panic!("no permit");
    };
    let held = delivery.take().unwrap().ids[0];
    let release_of = async |ids| {
        let (name, owner) = (name("s"), owner.clone());
        let request = ReleasePermits {
            name,
            owner,
            ids,
            request_id: None,
        };
        release(core, &request).await
    };
    release_of(vec![held, [7; 16]]).await.unwrap_err();
    settle().await;
    assert_eq!(opened.stream.names(), [name("s")]);
    assert!(opened.stream.session.state.lock().lost.is_empty());
    release_of(vec![held]).await.unwrap();
    assert!(opened.stream.names().is_empty());
    // The store says that none of them is held.
    release_of(vec![held]).await.unwrap_err();
}
