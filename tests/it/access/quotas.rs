//! How much one identity may have.

use lockkeeper_access::Quotas;
use lockkeeper_api::pb::{self, session_response::Response};
use tonic::Code;
use tonic_types::StatusExt as _;

use super::{ALICE, MALLORY, assert_refused, world_with};
use crate::support::{
    client::{acquire_request, try_request},
    eventually, secs,
};

#[tokio::test(start_paused = true)]
async fn sessions_grants_and_waiters_are_counted_for_each_identity_and_given_back() {
    let world = world_with(
        Vec::new(),
        Quotas {
            sessions: 1,
            grants: 2,
            waiters: 1,
            ..Quotas::default()
        },
    );
    let mut alice = world.client_as(0, ALICE).await;
    let mut mallory = world.client_as(0, MALLORY).await;
    let mut session = alice.open().await;
    let refused = alice.open_with(pb::OpenSession::default()).await;
    assert_refused(refused, Code::ResourceExhausted, "QUOTA_SESSIONS");
    let mut others = mallory.open().await;

    session.acquire("a").await;
    session.acquire("b").await;
    let op_id = session.send_acquire("c", "");
    assert_eq!(session.expect_failed(op_id).await, "QUOTA_GRANTS");
    assert_eq!(session.acquire("a").await.hold_count, 2, "no new grant");
    session.release("a").await;
    session.release("a").await;
    session.acquire("c").await;

    let first = others.send_acquire("b", "");
    assert!(matches!(others.answer(first).await, Response::Waiting(_)));
    let op_id = others.send_acquire("c", "");
    assert_eq!(others.expect_failed(op_id).await, "QUOTA_WAITERS");
    let wait = mallory.acquire(acquire_request("b", "x")).await;
    let ended = wait.unwrap().end().await;
    assert_refused(ended, Code::ResourceExhausted, "QUOTA_WAITERS");
    // Sessionless waits count as well.
    let wait = alice.waits(acquire_request("b", "x")).await;
    let second = alice.acquire(acquire_request("b", "y")).await;
    let ended = second.unwrap().end().await;
    assert_refused(ended, Code::ResourceExhausted, "QUOTA_WAITERS");

    session.close().await.unwrap();
    drop(wait);
    eventually("the session is given back", || async {
        world.coordinator(0).load().sessions == 1
    })
    .await;
    let mut session = alice.open().await;
    session.acquire("d").await;
    session.acquire("e").await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_limited_over_rpcs_and_frames_together() {
    let world = world_with(
        Vec::new(),
        Quotas {
            requests_per_second: 5,
            ..Quotas::default()
        },
    );
    let mut alice = world.client_as(0, ALICE).await;
    let mut session = alice.open().await;
    for _ in 0..2 {
        session.try_acquire(try_request("a", "")).await;
    }
    for _ in 0..2 {
        alice.try_acquire("b", "ci", secs(30)).await.unwrap();
    }
    // The rate is that of a real clock, which may have given one or two back on a slow machine.
    let mut refused = None;
    for _ in 0..100 {
        if let Err(status) = alice.try_acquire("b", "ci", secs(30)).await {
            refused = Some(status);
            break;
        }
    }
    let refused = refused.expect("five in a second and no more");
    let retry = refused.get_details_retry_info().unwrap().retry_delay;
    assert!(retry.is_some_and(|after| after <= secs(1)), "{retry:?}");
    assert_refused(
        Err::<(), _>(refused),
        Code::ResourceExhausted,
        "QUOTA_REQUESTS_PER_SECOND",
    );
    let mut failed = 0;
    for _ in 0..20 {
        let op_id = session.send_release("a", "");
        failed += u32::from(matches!(session.end(op_id).await, Response::Failed(_)));
    }
    assert!(failed >= 10, "{failed} of 20");
    let mut mallory = world.client_as(0, MALLORY).await;
    mallory.try_acquire("m", "ci", secs(30)).await.unwrap();
}
