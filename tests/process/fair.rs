//! Fair locks on a real Redis, with waiters at two coordinators.

use std::time::Duration;

use deadpool_redis::redis::Value;
use lockkeeper_api::pb::{self, LockMode, session_request::Request, session_response::Response};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    client::Session,
    coordinator::{Coordinator, Settings},
    redis_server::{RedisServer, eventually},
    steps::{measured, secs},
};

const WAITERS: usize = 64;

/// At default settings, a waiter whose coordinator died is passed over within this.
const DEAD_HEAD_MAX: Duration = secs(10);

#[tokio::test]
async fn mission_17_waiters_at_two_coordinators_are_granted_in_the_order_they_came() {
    let redis = RedisServer::start().await;
    let settings = Settings::on(&redis.url());
    let (a, b) = tokio::join!(Coordinator::start(&settings), Coordinator::start(&settings));
    let mut clients = [a.client().await, b.client().await];
    let mut holder = clients[0].open().await;
    hold(&mut holder).await;
    let (told, mut order) = mpsc::unbounded_channel();
    for number in 0..WAITERS {
        let mut session = clients[number % 2].open().await;
        let op_id = session.send(acquire());
        let Response::Waiting(waiting) = session.answer(op_id).await else {
            panic!("expected waiting");
        };
        assert_eq!(waiting.position as usize, number + 1, "counts all");
        let told = told.clone();
        lockkeeper_base::tasks::spawn_detached("waiter", async move {
            let granted = session.expect_granted(op_id).await;
            told.send((number, granted.fencing_token)).unwrap();
            release(&mut session).await;
        });
    }
    let described = clients[1].describe("fair").await;
    assert_eq!(described.waiter_count as usize, WAITERS);
    assert_eq!(described.mode, i32::from(LockMode::Fair));
    release(&mut holder).await;
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
    let redis = RedisServer::start().await;
    let settings = Settings::on(&redis.url());
    let (a, b) = tokio::join!(Coordinator::start(&settings), Coordinator::start(&settings));
    let (mut at_a, mut at_b) = (a.client().await, b.client().await);
    let mut holder = at_b.open().await;
    hold(&mut holder).await;
    let mut dead = Vec::new();
    for _ in 0..3 {
        let mut session = at_a.open().await;
        let op_id = session.send(acquire());
        assert!(matches!(session.answer(op_id).await, Response::Waiting(_)));
        dead.push(session);
    }
    let mut next = at_b.open().await;
    let op_id = next.send(acquire());
    assert!(matches!(next.answer(op_id).await, Response::Waiting(_)));
    a.kill();
    let killed = Instant::now();
    release(&mut holder).await;
    next.expect_granted(op_id).await;
    measured("until the next after three dead waiters", killed.elapsed());
    assert!(killed.elapsed() < DEAD_HEAD_MAX, "{:?}", killed.elapsed());
    release(&mut next).await;
    expect_no_queue(&redis).await;
}

#[tokio::test]
async fn a_client_that_is_killed_makes_way_at_once() {
    let redis = RedisServer::start().await;
    let coordinator = Coordinator::start(&Settings::on(&redis.url())).await;
    let mut client = coordinator.client().await;
    let mut holder = client.open().await;
    hold(&mut holder).await;
    let mut gone = coordinator.client().await;
    let mut first = gone.open().await;
    let op_id = first.send(acquire());
    assert!(matches!(first.answer(op_id).await, Response::Waiting(_)));
    let mut second = client.open().await;
    let op_id = second.send(acquire());
    assert!(matches!(second.answer(op_id).await, Response::Waiting(_)));
    drop((first, gone));
    eventually("one waits", || async {
        client.clone().describe("fair").await.waiter_count == 1
    })
    .await;
    release(&mut holder).await;
    second.expect_granted(op_id).await;
}

fn acquire() -> Request {
    Request::Acquire(pb::AcquireRequest {
        name: "fair".to_owned(),
        mode: LockMode::Fair.into(),
        ..Default::default()
    })
}

async fn hold(session: &mut Session) {
    let op_id = session.send(acquire());
    session.expect_granted(op_id).await;
}

async fn release(session: &mut Session) {
    let op_id = session.send(Request::Release(pb::ReleaseRequest {
        name: "fair".to_owned(),
        mode: LockMode::Fair.into(),
        ..Default::default()
    }));
    assert!(matches!(session.answer(op_id).await, Response::Released(_)));
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
