//! What is others' is for who has the admin right, for the name or for all that begin with what is
//! asked for.

use lockkeeper_access::{Quotas, Right};
use lockkeeper_api::pb::lock_admin_service_client::LockAdminServiceClient;

use super::{ALICE, MALLORY, rule, world_with};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn nobody_looks_at_what_is_others_or_takes_it_away_without_the_right() {
    let all = [Right::Acquire, Right::Release, Right::Describe];
    let world = world_with(
        vec![
            rule("spiffe://prod/*", "", &all),
            rule(ALICE, "orders/", &[Right::Admin]),
        ],
        Quotas::default(),
    );
    let mut client = world.client_as(0, MALLORY).await;
    let held = client.try_acquire("orders/1", "x", secs(60)).await.unwrap();
    for (identity, prefix, may) in [
        (MALLORY, "orders/", false),
        (ALICE, "orders/", true),
        (ALICE, "orders/1", true),
        (ALICE, "invoices/", false),
        (ALICE, "", false),
    ] {
        let client = world.client_as(0, identity).await;
        let mut admin = LockAdminServiceClient::new(client.channel());
        let list = pb::ListLocksRequest::default().prefix(prefix);
        let watch = pb::WatchRequest::default().prefix(prefix);
        let (listed, watched) = (admin.list_locks(list).await, admin.watch(watch).await);
        let sessions = admin.list_sessions(pb::ListSessionsRequest::default());
        expect_refused(sessions.await, Code::PermissionDenied, "PERMISSION_DENIED");
        if may {
            assert_eq!(listed.unwrap().into_inner().locks.len(), 1);
            assert!(watched.is_ok());
        } else {
            expect_refused(listed, Code::PermissionDenied, "PERMISSION_DENIED");
            expect_refused(watched, Code::PermissionDenied, "PERMISSION_DENIED");
        }
    }
    let force = |name: &str| pb::ForceReleaseRequest::named(name).because("why");
    let mut admin = LockAdminServiceClient::new(client.channel());
    let refused = admin.force_release(force("orders/1")).await;
    expect_refused(refused, Code::PermissionDenied, "PERMISSION_DENIED");
    assert!(held.acquired, "its own lock, too");
    let alice = world.client_as(0, ALICE).await;
    let mut admin = LockAdminServiceClient::new(alice.channel());
    let refused = admin.force_release(force("invoices/1")).await;
    expect_refused(refused, Code::PermissionDenied, "PERMISSION_DENIED");
    let released = admin.force_release(force("orders/1")).await.unwrap();
    assert!(released.into_inner().released);
}
