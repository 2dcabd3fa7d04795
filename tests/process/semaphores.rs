//! Semaphores and latches on a real Redis: two coordinators, one of which dies; no memory; and a
//! store that has forgotten everything.

use std::sync::atomic::{AtomicU32, Ordering};

use deadpool_redis::redis::Value;

use crate::prelude::*;
use crate::steps::{HAND_OVER_MAX, LEASE};

/// Coordinators that learn from messages and leases alone: their polls come too late to help.
async fn two_coordinators() -> (RedisServer, Coordinator, Coordinator) {
    let redis = RedisServer::start().await;
    // The store always answers here, and a crowd on a busy machine makes it slow.
    let settings = settings_on(&redis.url())
        .with("store.poll_interval", "60s")
        .with("store.call_timeout", "2s");
    let (a, b) = tokio::join!(Coordinator::start(&settings), Coordinator::start(&settings));
    (redis, a, b)
}

/// When the store counts the last lease of a permit as over.
async fn last_lease_end(redis: &RedisServer) -> Instant {
    let last = ["ZRANGE", "{pool}:timeout", "-1", "-1", "WITHSCORES"];
    let Value::Array(last) = redis.command(&last).await else {
        panic!("not a list");
    };
    let [_, Value::BulkString(score)] = last.as_slice() else {
        panic!("nothing is taken: {last:?}");
    };
    let score: u64 = str::from_utf8(score).unwrap().parse().unwrap();
    let Value::Array(time) = redis.command(&["TIME"]).await else {
        panic!("not a list");
    };
    let part = |part: &Value| match part {
        Value::BulkString(digits) => str::from_utf8(digits).unwrap().parse::<u64>().unwrap(),
        other => panic!("{other:?}"),
    };
    let now = part(&time[0]) * 1000 + part(&time[1]) / 1000;
    Instant::now() + millis(score.saturating_sub(now))
}

/// Asks for permits and is told to wait.
async fn wait(session: &mut Session, permits: u32) -> u64 {
    let op_id = session.send_acquire_permits("pool", permits);
    match session.answer(op_id).await {
        Response::WaitingForPermits(_) => op_id,
        other => panic!("expected waiting, got {other:?}"),
    }
}

#[tokio::test]
async fn a_killed_coordinators_permits_go_to_who_waits_when_their_leases_end() {
    judged_by_time(async || {
        let (redis, a, b) = two_coordinators().await;
        let mut permits = Semaphore::new(&b.client().await, "pool");
        permits.set(3).await;
        let mut holder = a.client().await.open().await;
        holder.acquire_permits("pool", 2).await;
        let mut waiter = b.client().await.open().await;
        let op_id = wait(&mut waiter, 3).await;
        a.kill();
        let end = last_lease_end(&redis).await;
        waiter.expect_permits(op_id).await;
        assert!(Instant::now() + millis(5) >= end, "too early");
        let what = "permits after the end of a killed coordinator's lease";
        since(end).must_be_below(HAND_OVER_MAX, what);
        waiter.close().await.unwrap();
        assert!(permits.is_idle(3).await);
    })
    .await;
}

#[tokio::test]
async fn a_crowd_at_two_coordinators_never_holds_more_than_there_are() {
    const TOTAL: u32 = 7;
    const CALLS: usize = 300;
    let (_redis, a, b) = two_coordinators().await;
    let clients = [a.client().await, b.client().await];
    let mut permits = Semaphore::new(&clients[0], "pool");
    permits.set(TOTAL).await;
    let (held, most) = (AtomicU32::new(0), AtomicU32::new(0));
    let calls = (0..CALLS).map(|n| {
        let mut permits = Semaphore::new(&clients[n % 2], "pool");
        let (held, most) = (&held, &most);
        async move {
            let wanted = 1 + u32::try_from(n).unwrap() % 4;
            let owner = format!("o{n}");
            let request = permits.request(&owner, wanted).lasting(secs(60));
            let mut call = permits.acquire(request).await.unwrap();
            let grant = call.expect_granted().await;
            let now = held.fetch_add(wanted, Ordering::SeqCst) + wanted;
            most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(millis(5)).await;
            held.fetch_sub(wanted, Ordering::SeqCst);
            permits.release(&owner, &grant.permit_ids).await.unwrap();
        }
    });
    join_all(calls).await;
    let most = most.into_inner();
    assert!(most <= TOTAL, "{most} at once");
    assert!(most > TOTAL / 2, "only {most} at once");
    assert!(permits.is_idle(TOTAL).await);
}

#[tokio::test]
async fn without_memory_permits_are_renewed_and_given_back_and_latches_open() {
    let (redis, _coordinator, mut client) = one_coordinator().await;
    let mut permits = Semaphore::new(&client, "pool");
    permits.set(2).await;
    let mut latch = Latch::new(&client, "start");
    latch.set(2).await;
    let mut holder = client.open().await;
    let grant = holder.acquire_permits("pool", 1).await;
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let refused = permits.try_acquire("x", 1, LEASE).await.unwrap_err();
    assert_eq!(reason(&refused), "STORE_OUT_OF_MEMORY");
    tokio::time::sleep(LEASE * 3 / 2).await;
    assert_eq!(permits.describe().await.available, 1, "it is renewed");
    let released = holder.release_permits("pool", &grant.permit_ids).await;
    assert_eq!(released.available, 2);
    assert_eq!(latch.count_down(1).await.unwrap(), 1);
    assert_eq!(latch.count_down_as(1, "r1").await.unwrap(), 0);
}

#[tokio::test]
async fn a_store_that_forgets_everything_is_told_to_holders_and_waiters() {
    let (redis, _coordinator, mut client) = one_coordinator().await;
    let mut permits = Semaphore::new(&client, "pool");
    permits.set(1).await;
    let mut holder = open_with_lease(&mut client, secs(3)).await;
    let grant = holder.acquire_permits("pool", 1).await;
    let mut waiter = client.open().await;
    let op_id = wait(&mut waiter, 1).await;
    redis.command(&["FLUSHALL"]).await;
    assert_eq!(waiter.expect_failed(op_id).await, "SEMAPHORE_NOT_FOUND");
    let lost = holder.expect_permits_lost().await;
    assert_eq!(lost.reason(), LostReason::Expired);
    assert_eq!(lost.grant.unwrap().permit_ids, grant.permit_ids);
    assert!(permits.set(1).await.created);
    permits.take("x", 1, LEASE).await;
}
