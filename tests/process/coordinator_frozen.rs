//! Bad days: a coordinator that sleeps through the end of its leases, and wakes up.

use crate::prelude::*;
use crate::{
    coordinator::client_at,
    steps::{HAND_OVER_MAX, LEASE, lease_end, wait_for},
};

#[tokio::test]
async fn it_neither_renews_nor_hands_out_what_is_not_its_any_more() {
    judged_by_time(async || {
        let (redis, a, b) = two_coordinators(settings_on).await;
        let (mut at_a, mut at_b) = (a.client().await, b.client().await);
        let mut holder = at_a.open().await;
        let held = holder.acquire("build").await;
        let beside = timed_wait(&mut at_a, "build").await;
        let waiter = timed_wait(&mut at_b, "build").await;

        a.stop();
        let end = lease_end(&redis, "build").await;
        // Asked in time, and read too late.
        let renew = holder.send(Request::Renew(pb::RenewRequest::named("build")));
        let (granted_at, (granted, mut next)) = waiter.await.unwrap();
        between(end, granted_at).must_be_below(
            HAND_OVER_MAX,
            "hand-over after the end of a frozen coordinator's lease",
        );
        assert!(granted.fencing_token > held.fencing_token);

        a.cont();
        let (lost, _) = lost_after_risk(&mut holder).await;
        assert_eq!(lost.grant.unwrap().fencing_token, held.fencing_token);
        assert_eq!(holder.expect_failed(renew).await, "NOT_OWNER");
        let field = format!("{}:0", next.id());
        for _ in 0..2 {
            assert_eq!(redis.text(&["HLEN", "build"]).await, "1");
            assert_eq!(redis.text(&["HGET", "build", &field]).await, "1");
            assert!(!beside.is_finished(), "granted beside a holder");
            tokio::time::sleep(LEASE).await;
        }
        assert!(next.release("build").await.released);
        let (_, (third, session)) = beside.await.unwrap();
        assert!(third.fencing_token > granted.fencing_token);
        for session in [holder, next, session] {
            session.close().await.unwrap();
        }
        expect_no_trace(&redis).await;
        expect_serving(&a).await;
        expect_serving(&b).await;
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_thaws_leaves_the_lock_of_its_resumed_session_alone() {
    let (_redis, a, b) = two_coordinators(|url| {
        settings_on(url)
            .with("server.keepalive_interval", "1s")
            .with("server.keepalive_timeout", "1s")
    })
    .await;
    let network = TcpProxy::to(a.address().port()).await;
    let mut at_a = client_at(network.address()).await;
    let mut at_b = b.client().await;
    let mut holder = at_b.open().await;
    holder.acquire("build").await;
    let (waiter, _) = wait_for(&mut at_a, "build").await;

    // It does not hear that its client is gone.
    network.cut();
    a.stop();
    // Its client notices, and goes on elsewhere, before the session's lease is over.
    let mut resumed = at_b.resume(&waiter.opened, Vec::new()).await.unwrap();
    drop((waiter, at_a));
    holder.release("build").await;
    let granted = resumed.acquire("build").await;
    a.cont();
    // Which it hears from the other coordinator, or by its keepalive. A try that it makes before
    // changes nothing, nor does the end of the wait.
    eventually("the coordinator knows that the client is gone", || async {
        a.client().await.describe("build").await.waiters.is_empty()
    })
    .await;
    let described = at_b.describe("build").await;
    let holds: Vec<_> = described.holders.iter().map(|it| it.hold_count).collect();
    assert_eq!(holds, [1]);
    assert_eq!(described.last_fencing_token, granted.fencing_token);
    assert!(resumed.release("build").await.released);
}
