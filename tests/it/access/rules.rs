//! What no rule allows is refused: every RPC, and the same as frames.

use lockkeeper_access::{Quotas, Right};
use lockkeeper_api::pb::{
    self, latch_service_client::LatchServiceClient, lock_service_client::LockServiceClient,
    semaphore_service_client::SemaphoreServiceClient, session_request::Request,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{ALICE, MALLORY, assert_refused, rule, world_with};
use crate::support::{World, client::Client, reason, secs, several::specs};

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
#[expect(
    clippy::needless_update,
    reason = "some requests have nothing but a name"
)]
fn operations(name: &str) -> Vec<(Right, Request)> {
    macro_rules! ask {
        ($right:ident $kind:ident $request:ident: $($field:ident)+) => {{
            let request = pb::$request {
                $($field: Clone::clone(&$field),)+
                ..Default::default()
            };
            (Right::$right, Request::$kind(request))
        }};
    }
    let locks = specs(&["free/a", name]);
    let (name, owner) = (name.to_owned(), "o".to_owned());
    let (permits, count, by, fencing_token) = (1, 1, 1, 1);
    vec![
        ask!(Acquire Acquire AcquireRequest: name owner),
        ask!(Acquire TryAcquire TryAcquireRequest: name owner),
        ask!(Acquire Renew RenewRequest: name owner),
        ask!(Release Release ReleaseRequest: name owner),
        ask!(Acquire AcquireAll AcquireAllRequest: locks owner),
        ask!(Acquire TryAcquireAll TryAcquireAllRequest: locks owner),
        ask!(Release ReleaseAll ReleaseAllRequest: locks owner),
        ask!(Describe Describe DescribeRequest: name),
        ask!(Describe CheckToken CheckTokenRequest: name fencing_token),
        ask!(Acquire AcquirePermits AcquirePermitsRequest: name owner permits),
        ask!(Acquire TryAcquirePermits TryAcquirePermitsRequest: name owner permits),
        ask!(Release ReleasePermits ReleasePermitsRequest: name owner),
        ask!(Acquire RenewPermits RenewPermitsRequest: name owner),
        ask!(Acquire SetPermits SetPermitsRequest: name permits),
        ask!(Describe DescribeSemaphore DescribeSemaphoreRequest: name),
        ask!(Acquire SetCount SetCountRequest: name count),
        ask!(Acquire CountDown CountDownRequest: name by),
        ask!(Acquire AwaitLatch AwaitLatchRequest: name),
        ask!(Describe DescribeLatch DescribeLatchRequest: name),
        ask!(Acquire DeleteLatch DeleteLatchRequest: name),
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
        Request::Open(_)
        | Request::Resume(_)
        | Request::Close(_)
        | Request::Cancel(_)
        | Request::Ping(_) => {
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
