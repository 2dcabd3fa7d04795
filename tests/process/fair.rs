//! Fair locks on a real Redis, with waiters at two coordinators.

use std::time::Duration;

use deadpool_redis::redis::Value;
use lockkeeper_api::pb::LockMode;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    coordinator::Settings,
    redis_server::RedisServer,
    steps::{judged_by_time, secs, since, two_coordinators},
};

const FAIR: LockMode = LockMode::Fair;
const WAITERS: usize = 64;

/// At default settings, a waiter whose coordinator died is passed over within this.
const DEAD_HEAD_MAX: Duration = secs(10);

#[tokio::test]
async fn mission_17_waiters_at_two_coordinators_are_granted_in_the_order_they_came() {
    let (redis, a, b) = two_coordinators(Settings::on).await;
    let mut clients = [a.client().await, b.client().await];
    let mut holder = clients[0].open().await;
    holder.take_in("fair", FAIR).await;
    let (told, mut order) = mpsc::unbounded_channel();
    for number in 0..WAITERS {
        let mut session = clients[number % 2].open().await;
        let (op_id, waiting) = session.wait_in("fair", FAIR).await;
        assert_eq!(waiting.position as usize, number + 1, "counts all");
        let told = told.clone();
        lockkeeper_base::tasks::spawn_detached("waiter", async move {
            let granted = session.expect_granted(op_id).await;
            told.send((number, granted.fencing_token)).unwrap();
            session.release_in("fair", FAIR).await;
        });
    }
    let described = clients[1].describe("fair").await;
    assert_eq!(described.waiter_count as usize, WAITERS);
    assert_eq!(described.mode, i32::from(FAIR));
    holder.release_in("fair", FAIR).await;
    let mut last = 0;
    for expected in 0..WAITERS {
        let (number, token) = order.recv().await.unwrap();
        assert_eq!(number, expected, "in the order they came");
        assert!(token > last, "tokens grow");
        last = token;
    }
    expect_no_queue(&redis).await;
}

#[tokio::test]
async fn a_first_waiter_whose_coordinator_is_killed_delays_the_next_by_seconds() {
    judged_by_time(async || {
        let (redis, a, b) = two_coordinators(Settings::on).await;
        let (mut at_a, mut at_b) = (a.client().await, b.client().await);
        let mut holder = at_b.open().await;
        holder.take_in("fair", FAIR).await;
        let mut dead = Vec::new();
        for _ in 0..3 {
            let mut session = at_a.open().await;
            session.wait_in("fair", FAIR).await;
            dead.push(session);
        }
        let mut next = at_b.open().await;
        let (op_id, _) = next.wait_in("fair", FAIR).await;
        a.kill();
        let killed = Instant::now();
        holder.release_in("fair", FAIR).await;
        next.expect_granted(op_id).await;
        since(killed).must_be_below(DEAD_HEAD_MAX, "until the next after three dead waiters");
        next.release_in("fair", FAIR).await;
        expect_no_queue(&redis).await;
    })
    .await;
}

/// The queue and all that belongs to it is gone.
async fn expect_no_queue(redis: &RedisServer) {
    for pattern in [
        "redisson_lock_queue*",
        "redisson_lock_timeout*",
        "lockkeeper_fair*",
    ] {
        let keys = redis.command(&["KEYS", pattern]).await;
        assert_eq!(keys, Value::Array(Vec::new()), "{pattern}");
    }
}
