//! A fair lock on a real Redis whose first waiters are at a coordinator that dies.

use deadpool_redis::redis::Value;

use crate::prelude::*;

const FAIR: LockMode = LockMode::Fair;

/// At default settings, a waiter whose coordinator died is passed over within this.
const DEAD_HEAD_MAX: Duration = secs(10);

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
