//! Sessions belong to whoever opened them, on every coordinator.

use lockkeeper_access::Quotas;
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};

use super::{ALICE, MALLORY, assert_no_session, both, world_with};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn resume_by_another_is_refused_here_and_elsewhere() {
    let (world, mut alice, mut mallory) = both().await;
    let mut session = alice.open().await;
    let grant = session.acquire("a").await;
    let opened = session.opened.clone();
    assert_no_session(mallory.resume(&opened, vec![grant.clone()]).await);
    let mut elsewhere = world.client_as(1, MALLORY).await;
    assert_no_session(elsewhere.resume(&opened, vec![grant.clone()]).await);
    // The session has not noticed.
    assert_eq!(session.acquire("a").await.hold_count, 2);
    let mut own = world.client_as(1, ALICE).await;
    let resumed = own.resume(&opened, vec![grant]).await.unwrap();
    assert_eq!(resumed.opened.grants[0].hold_count, 2);
}

#[tokio::test(start_paused = true)]
async fn a_frame_cannot_name_anothers_session() {
    let (_world, mut alice, mut mallory) = both().await;
    let session = alice.open().await;
    let mut own = mallory.open().await;
    let request = try_request("a", "").of_session(session.id());
    let op_id = own.send(pb::session_request::Request::TryAcquire(request));
    assert_eq!(own.expect_failed(op_id).await, "INVALID_SESSION_ID");
}

#[tokio::test(start_paused = true)]
async fn whoever_shows_nothing_is_refused_but_may_ask_for_health() {
    let world = world_with(Vec::new(), Quotas::default());
    let mut nobody = world.client(0).await;
    let tried = nobody.api.try_acquire(try_request("a", "")).await;
    expect_refused(tried, Code::Unauthenticated, "UNAUTHENTICATED");
    let opened = nobody.open_with(pb::OpenSession::default()).await;
    expect_refused(opened, Code::Unauthenticated, "UNAUTHENTICATED");
    let mut health = tonic_health::pb::health_client::HealthClient::new(nobody.channel());
    let request = tonic_health::pb::HealthCheckRequest::default();
    let checked = health.check(request).await.unwrap().into_inner();
    assert_eq!(checked.status, 1, "serving");

    let list = || ServerReflectionRequest {
        message_request: Some(MessageRequest::ListServices(String::new())),
        ..Default::default()
    };
    let ask = |channel| async move {
        let mut reflection = ServerReflectionClient::new(channel);
        let request = tokio_stream::once(list());
        reflection.server_reflection_info(request).await.map(drop)
    };
    let refused = ask(nobody.channel()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    ask(world.client_as(0, ALICE).await.channel())
        .await
        .unwrap();
}
