//! What no rule allows is refused. `matrix.rs` has every RPC and every frame.

use lockkeeper_access::{Quotas, Right};
use tonic::Code;

use super::{ALICE, MALLORY, assert_refused, rule, world_with};
use crate::support::{World, secs};

/// Both may use what begins with `free/`; what begins with `orders/` is Alice's.
fn world() -> World {
    let all = [Right::Acquire, Right::Release, Right::Describe];
    let rules = vec![
        rule("spiffe://prod/*", "free/", &all),
        rule(ALICE, "orders/", &all),
    ];
    world_with(rules, Quotas::default())
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
