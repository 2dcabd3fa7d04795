//! What no rule allows is refused. `matrix.rs` has every RPC and every frame.

use lockkeeper_access::{Quotas, Right};

use super::{ALICE, MALLORY, access, rule, world_with};
use crate::support::prelude::*;

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
    expect_refused(tried, Code::PermissionDenied, "PERMISSION_DENIED");
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_no_rule_allows_is_not_resumed_and_costs_no_other() {
    let world = world();
    let mut alice = world.client_as(0, ALICE).await;
    let mut session = alice.open().await;
    let mut grant = session.acquire("orders/1").await;
    let mut mallory = world.client_as(0, MALLORY).await;
    let mut own = mallory.open().await;
    let free = own.acquire("free/a").await;
    let opened = own.opened.clone();
    grant.session_id.clone_from(&opened.session_id);
    let resumed = mallory.resume(&opened, vec![free, grant]).await;
    let mut resumed = resumed.unwrap();
    assert_eq!(resumed.opened.grants.len(), 1);
    let lost = resumed.expect_lost().await;
    assert_eq!(lost.grant.unwrap().name, "orders/1");
    assert!(session.release("orders/1").await.released, "hers as before");
}

fn spec(name: &str) -> pb::LockSpec {
    pb::LockSpec {
        name: name.to_owned(),
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_no_rule_allows_any_more_is_granted_nothing() {
    let access = access(vec![rule("*", "", &Right::ALL)], Quotas::default());
    let world = World::with(&Options::with(|it| it.access = access.clone()));
    let mut alice = world.client_as(0, ALICE).await;
    let mut holder = alice.open().await;
    for name in ["a", "b"] {
        holder.acquire(name).await;
    }
    let mut mallory = world.client_as(0, MALLORY).await;
    let mut call = mallory.acquire(acquire_request("a", "m")).await.unwrap();
    call.expect_waiting().await;
    let mut session = mallory.open().await;
    let one = session.send_acquire("a", "one");
    let all = session.send(Request::AcquireAll(
        pb::AcquireAllRequest::default()
            .of_locks(["a", "b"].map(spec).to_vec())
            .by("all"),
    ));
    let free = session.send(Request::AwaitFree(pb::AwaitFreeRequest::named("a")));
    let count = pb::SetCountRequest::named("latch").count(1);
    let set = holder.send(Request::SetCount(count));
    holder.answer(set).await;
    let latch = pb::AwaitLatchRequest::named("latch");
    let open = session.send(Request::AwaitLatch(latch));
    let waits = [one, all, free, open];
    for wait in waits {
        session.answer(wait).await;
    }
    access.set(
        vec![
            rule(ALICE, "", &Right::ALL),
            rule(MALLORY, "free/", &Right::ALL),
        ],
        Quotas::default(),
    );
    for name in ["a", "b"] {
        holder.release(name).await;
    }
    let count = pb::CountDownRequest::named("latch").count_by(1);
    let counted = holder.send(Request::CountDown(count));
    holder.answer(counted).await;
    expect_refused(
        call.end().await,
        Code::PermissionDenied,
        "PERMISSION_DENIED",
    );
    for wait in waits {
        assert_eq!(session.expect_failed(wait).await, "PERMISSION_DENIED");
    }
    // What they were about to hold is free again.
    for name in ["a", "b"] {
        holder.acquire(name).await;
    }
}
