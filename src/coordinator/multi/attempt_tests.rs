use lockkeeper_store::script::Mode;

use super::*;
use crate::{
    coordinator::Coordinator,
    testing::{
        acquire_all, config, granted_all, in_session, open, owner, request_id, settle, start,
        start_faulty,
    },
};

const BOTH: [(&str, Mode); 2] = [("a", Mode::Exclusive), ("b", Mode::Exclusive)];

async fn take(coordinator: &Coordinator, request: &AcquireAll) {
    granted_all(coordinator, request).await.take().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_grant_to_another_shows_what_a_session_has_lost() {
    let (_faults, coordinator, store) = start_faulty(config());
    let opened = open(&coordinator);
    let own = acquire_all(&BOTH, &in_session(&opened, ""));
    take(&coordinator, &own).await;
    settle().await;
    store.flush_all();
    take(&coordinator, &acquire_all(&BOTH, &owner("x"))).await;
    settle().await;
    assert!(opened.stream.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_a_repeat_is_no_new_grant() {
    let coordinator = start(config());
    let core = &coordinator.core;
    let mut told = core.events.subscribe().unwrap();
    let request = AcquireAll {
        request_id: request_id("r"),
        ..acquire_all(&BOTH, &owner("x"))
    };
    take(&coordinator, &request).await;
    let names = [told.try_recv(), told.try_recv()].map(|event| event.unwrap().name);
    assert_eq!(names.map(|it| it.to_string()), ["a", "b"]);
    take(&coordinator, &request).await;
    assert!(told.try_recv().is_err());
}
