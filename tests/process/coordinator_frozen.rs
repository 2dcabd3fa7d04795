//! Bad days: a coordinator that sleeps through the end of its leases, and wakes up.

use lockkeeper::grpc::pb::{self, session_request::Request};

use crate::{
    coordinator::Coordinator,
    redis_server::RedisServer,
    steps::{
        HAND_OVER_MAX, LEASE, expect_no_trace, expect_serving, lease_end, lost_after_risk,
        measured, settings_on, timed_wait,
    },
};

#[tokio::test]
async fn it_neither_renews_nor_hands_out_what_is_not_its_any_more() {
    let redis = RedisServer::start().await;
    let settings = settings_on(&redis.url());
    let (a, b) = tokio::join!(Coordinator::start(&settings), Coordinator::start(&settings));
    let (mut at_a, mut at_b) = (a.client().await, b.client().await);
    let mut holder = at_a.open().await;
    let held = holder.acquire("build").await;
    let beside = timed_wait(&mut at_a, "build").await;
    let waiter = timed_wait(&mut at_b, "build").await;

    a.stop();
    let end = lease_end(&redis, "build").await;
    // Asked in time, and read too late.
    let renew = holder.send(Request::Renew(pb::RenewRequest {
        name: "build".to_owned(),
        ..Default::default()
    }));
    let (granted_at, (granted, mut next)) = waiter.await.unwrap();
    let late = granted_at.saturating_duration_since(end);
    measured(
        "hand-over after the end of a frozen coordinator's lease",
        late,
    );
    assert!(late <= HAND_OVER_MAX, "{late:?}");
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
}
