//! What a wait answers whose session ends or loses its stream.

use std::sync::Arc;

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_store::script::Mode;

use super::{Caller, acquire, config, granted, in_session, open, owner, settle, start};
use crate::{admin::Reason, coordinator::Coordinator, error::Error, lock, stream::Opened};

/// The end of a wait of a session, after `ends` has ended that.
async fn ended(ends: impl AsyncFnOnce(&Coordinator, Opened)) -> Error {
    let coordinator = start(config());
    let held = acquire("a", Mode::Exclusive, &owner("x"));
    granted(&coordinator, &held).await.take().unwrap();
    let opened = open(&coordinator);
    let request = acquire("a", Mode::Exclusive, &in_session(&opened, ""));
    let core = Arc::clone(&coordinator.core);
    let waits = spawn_detached("waits", async move {
        let mut caller = Caller::default();
        let waited = lock::acquire::acquire(&core, &request, &mut caller).await;
        waited.map(drop)
    });
    settle().await;
    ends(&coordinator, opened).await;
    waits.await.unwrap().unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_wait_whose_stream_breaks_says_that_its_session_can_be_resumed() {
    let error = ended(async |_, opened| drop(opened.stream)).await;
    assert_eq!(error, Error::SessionDetached);
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_a_session_that_is_closed_finds_no_session() {
    let error = ended(async |_, opened| opened.stream.close().await).await;
    assert_eq!(error, Error::SessionNotFound);
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_a_session_that_an_operator_ends_says_why() {
    let error = ended(async |coordinator, opened| {
        let sessions = vec![Arc::clone(&opened.stream.session)];
        let reason = Reason::parse("bye").unwrap();
        coordinator.end_sessions(sessions, &reason).await;
    });
    let expected = Error::SessionEndedByForce("bye".into());
    assert_eq!(error.await, expected);
}
