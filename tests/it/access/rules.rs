//! What no rule allows is refused: every RPC, and the same as frames.

use lockkeeper_access::{Quotas, Right};
use lockkeeper_api::pb::{
    self, latch_service_client::LatchServiceClient, lock_service_client::LockServiceClient,
    semaphore_service_client::SemaphoreServiceClient, session_request::Request,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{ALICE, MALLORY, assert_refused, rule, world_with};
use crate::support::{
    World,
    client::{Client, acquire_request, try_request},
    reason, secs,
};

/// Both may use what begins with `free/`; what begins with `orders/` is Alice's.
fn world() -> World {
    let all = [Right::Acquire, Right::Release, Right::Describe];
    let rules = vec![
        rule("spiffe://prod/*", "free/", &all),
        rule(ALICE, "orders/", &all),
    ];
    world_with(rules, Quotas::default())
}

/// Every operation that names something, with the right it needs.
#[expect(clippy::too_many_lines, reason = "a list")]
fn operations(name: &str) -> Vec<(Right, Request)> {
    let name = || name.to_owned();
    let locks = || {
        let own = |name: &str| pb::LockSpec {
            name: name.to_owned(),
            ..Default::default()
        };
        vec![own("free/a"), own(&name())]
    };
    let owner = || "o".to_owned();
    vec![
        (
            Right::Acquire,
            Request::Acquire(acquire_request(&name(), "o")),
        ),
        (
            Right::Acquire,
            Request::TryAcquire(try_request(&name(), "o")),
        ),
        (
            Right::Acquire,
            Request::Renew(pb::RenewRequest {
                name: name(),
                owner: owner(),
                ..Default::default()
            }),
        ),
        (
            Right::Release,
            Request::Release(pb::ReleaseRequest {
                name: name(),
                owner: owner(),
                ..Default::default()
            }),
        ),
        (
            Right::Acquire,
            Request::AcquireAll(pb::AcquireAllRequest {
                locks: locks(),
                owner: owner(),
                ..Default::default()
            }),
        ),
        (
            Right::Acquire,
            Request::TryAcquireAll(pb::TryAcquireAllRequest {
                locks: locks(),
                owner: owner(),
                ..Default::default()
            }),
        ),
        (
            Right::Release,
            Request::ReleaseAll(pb::ReleaseAllRequest {
                locks: locks(),
                owner: owner(),
                ..Default::default()
            }),
        ),
        (
            Right::Describe,
            Request::Describe(pb::DescribeRequest { name: name() }),
        ),
        (
            Right::Describe,
            Request::CheckToken(pb::CheckTokenRequest {
                name: name(),
                fencing_token: 1,
            }),
        ),
        (
            Right::Acquire,
            Request::AcquirePermits(pb::AcquirePermitsRequest {
                name: name(),
                permits: 1,
                owner: owner(),
                ..Default::default()
            }),
        ),
        (
            Right::Acquire,
            Request::TryAcquirePermits(pb::TryAcquirePermitsRequest {
                name: name(),
                permits: 1,
                owner: owner(),
                ..Default::default()
            }),
        ),
        (
            Right::Release,
            Request::ReleasePermits(pb::ReleasePermitsRequest {
                name: name(),
                owner: owner(),
                ..Default::default()
            }),
        ),
        (
            Right::Acquire,
            Request::RenewPermits(pb::RenewPermitsRequest {
                name: name(),
                owner: owner(),
                ..Default::default()
            }),
        ),
        (
            Right::Acquire,
            Request::SetPermits(pb::SetPermitsRequest {
                name: name(),
                permits: 1,
                ..Default::default()
            }),
        ),
        (
            Right::Describe,
            Request::DescribeSemaphore(pb::DescribeSemaphoreRequest { name: name() }),
        ),
        (
            Right::Acquire,
            Request::SetCount(pb::SetCountRequest {
                name: name(),
                count: 1,
                ..Default::default()
            }),
        ),
        (
            Right::Acquire,
            Request::CountDown(pb::CountDownRequest {
                name: name(),
                by: 1,
                ..Default::default()
            }),
        ),
        (
            Right::Acquire,
            Request::AwaitLatch(pb::AwaitLatchRequest {
                name: name(),
                ..Default::default()
            }),
        ),
        (
            Right::Describe,
            Request::DescribeLatch(pb::DescribeLatchRequest { name: name() }),
        ),
        (
            Right::Acquire,
            Request::DeleteLatch(pb::DeleteLatchRequest { name: name() }),
        ),
    ]
}

/// The same as an RPC.
async fn call(client: &Client, request: Request) -> Result<(), Status> {
    let mut locks = LockServiceClient::new(client.channel());
    let mut permits = SemaphoreServiceClient::new(client.channel());
    let mut latches = LatchServiceClient::new(client.channel());
    match request {
        Request::Acquire(it) => locks.acquire(it).await.map(drop),
        Request::TryAcquire(it) => locks.try_acquire(it).await.map(drop),
        Request::Renew(it) => locks.renew(it).await.map(drop),
        Request::Release(it) => locks.release(it).await.map(drop),
        Request::AcquireAll(it) => locks.acquire_all(it).await.map(drop),
        Request::TryAcquireAll(it) => locks.try_acquire_all(it).await.map(drop),
        Request::ReleaseAll(it) => locks.release_all(it).await.map(drop),
        Request::Describe(it) => locks.describe(it).await.map(drop),
        Request::CheckToken(it) => locks.check_token(it).await.map(drop),
        Request::AcquirePermits(it) => permits.acquire_permits(it).await.map(drop),
        Request::TryAcquirePermits(it) => permits.try_acquire_permits(it).await.map(drop),
        Request::ReleasePermits(it) => permits.release_permits(it).await.map(drop),
        Request::RenewPermits(it) => permits.renew_permits(it).await.map(drop),
        Request::SetPermits(it) => permits.set_permits(it).await.map(drop),
        Request::DescribeSemaphore(it) => permits.describe_semaphore(it).await.map(drop),
        Request::SetCount(it) => latches.set_count(it).await.map(drop),
        Request::CountDown(it) => latches.count_down(it).await.map(drop),
        Request::AwaitLatch(it) => latches.await_latch(it).await.map(drop),
        Request::DescribeLatch(it) => latches.describe_latch(it).await.map(drop),
        Request::DeleteLatch(it) => latches.delete_latch(it).await.map(drop),
        Request::Open(_) | Request::Resume(_) | Request::Close(_) | Request::Cancel(_) => {
            panic!("no RPC")
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_rpc_on_a_name_without_a_rule_is_refused_by_right_and_name() {
    let world = world();
    let mallory = world.client_as(0, MALLORY).await;
    for (right, request) in operations("orders/1") {
        let what = format!("{request:?}");
        let refused = call(&mallory, request).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{what}: {refused}");
        let info = refused.get_details_error_info().unwrap();
        assert_eq!(info.reason, "PERMISSION_DENIED");
        assert_eq!(info.metadata["right"], right.name(), "{what}");
        assert_eq!(info.metadata["name"], "orders/1", "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_frame_on_a_name_without_a_rule_is_refused_and_the_session_goes_on() {
    let world = world();
    let mut mallory = world.client_as(0, MALLORY).await;
    let mut session = mallory.open().await;
    for (_, request) in operations("orders/1") {
        let what = format!("{request:?}");
        let op_id = session.send(request);
        assert_eq!(
            session.expect_failed(op_id).await,
            "PERMISSION_DENIED",
            "{what}"
        );
    }
    assert_eq!(session.acquire("free/a").await.hold_count, 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_rule_allows_is_not_refused_for_want_of_a_right() {
    let world = world();
    let alice = world.client_as(0, ALICE).await;
    for (_, request) in operations("orders/1") {
        let what = format!("{request:?}");
        if let Err(status) = call(&alice, request).await {
            assert_ne!(reason(&status), "PERMISSION_DENIED", "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_right_is_not_another() {
    let rules = vec![rule("*", "", &[Right::Describe])];
    let world = world_with(rules, Quotas::default());
    let mut alice = world.client_as(0, ALICE).await;
    assert!(alice.describe("a").await.holders.is_empty());
    let tried = alice.try_acquire("a", "o", secs(30)).await;
    assert_refused(tried, Code::PermissionDenied, "PERMISSION_DENIED");
}

#[tokio::test(start_paused = true)]
async fn a_session_cannot_be_resumed_with_a_grant_that_no_rule_allows() {
    let world = world();
    let mut alice = world.client_as(0, ALICE).await;
    let mut session = alice.open().await;
    let mut grant = session.acquire("orders/1").await;
    let mut mallory = world.client_as(0, MALLORY).await;
    let mut own = mallory.open().await;
    let free = own.acquire("free/a").await;
    let opened = own.opened.clone();
    grant.session_id.clone_from(&opened.session_id);
    let resumed = mallory.resume(&opened, vec![free.clone(), grant]).await;
    assert_refused(resumed, Code::PermissionDenied, "PERMISSION_DENIED");
    let resumed = mallory.resume(&opened, vec![free]).await.unwrap();
    assert_eq!(resumed.opened.grants.len(), 1);
}
