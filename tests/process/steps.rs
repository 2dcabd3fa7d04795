//! Steps that the tests with real processes share.

use std::time::{Duration, SystemTime};

use deadpool_redis::redis::Value;
use lockkeeper_api::pb::{self, session_response::Response};
use lockkeeper_testkit::prelude::*;
use tokio::{
    net::TcpListener,
    process::Command,
    task::JoinHandle,
    time::{Instant, timeout},
};

use crate::{
    client::{Client, Session, acquire_request},
    coordinator::{Coordinator, Settings},
    redis_server::{RedisServer, eventually},
    redisson_client::channel,
};

pub(crate) use lockkeeper_testkit::pace::{Span, between, judged_by_time, since};
pub(crate) use lockkeeper_testkit::time::{measured, millis, secs, timed};

/// The lease of sessions in these tests: renewed often, and over soon.
pub(crate) const LEASE: Duration = secs(2);

/// A store that does not answer is noticed well within the lease.
const CALL_TIMEOUT: &str = "300ms";

/// How long after the end of a lease a waiter may get the lock.
pub(crate) const HAND_OVER_MAX: Duration = millis(200);

/// How long a notice may take to arrive on a busy machine.
const NOTICE_MAX: Duration = millis(150);

/// Within this a wait is over that is woken by a message or by a gap, on a busy machine: well below
/// the polls of tests that set them apart.
pub(crate) const PROMPT: Duration = millis(700);

/// Resolves when a silent server has been asked three times, each time over a new connection.
pub(crate) async fn asked_three_times(silent: &TcpListener) {
    let mut connections = Vec::new();
    while connections.len() < 3 {
        connections.push(silent.accept().await.unwrap());
    }
}

/// Coordinators with these can resume each other's sessions.
pub(crate) fn settings_on(store: &str) -> Settings {
    Settings::on(store)
        .with("session.secret", "a secret of all the coordinators here")
        .with("session.lease", "2s")
        .with("store.call_timeout", CALL_TIMEOUT)
}

/// A store, a coordinator on it, and a client of that.
pub(crate) async fn one_coordinator() -> (RedisServer, Coordinator, Client) {
    let redis = RedisServer::start().await;
    let coordinator = Coordinator::start(&settings_on(&redis.url())).await;
    coordinator.until_connected(1).await;
    let client = coordinator.client().await;
    (redis, coordinator, client)
}

/// A store, and two coordinators on it with the settings that are made for its URL.
pub(crate) async fn two_coordinators(
    settings: impl Fn(&str) -> Settings,
) -> (RedisServer, Coordinator, Coordinator) {
    let redis = RedisServer::start().await;
    let settings = settings(&redis.url());
    let (a, b) = tokio::join!(Coordinator::start(&settings), Coordinator::start(&settings));
    (redis, a, b)
}

/// What `serve` says instead of starting with these settings, and its exit code.
pub(crate) async fn refusal_to_start(settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let settings = [&[("server.listen", "127.0.0.1:0")], settings].concat();
    let settings = settings.iter().map(|(key, value)| format!("{key}={value}"));
    let output = Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .arg("serve")
        .args(settings.flat_map(|setting| ["--set".to_owned(), setting]))
        .env_clear()
        .kill_on_drop(true)
        .output();
    let output = timeout(secs(10), output).await.expect("it has started");
    let output = output.unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// The command line, talking to a coordinator. It ends with the value that its `spawn` returns.
pub(crate) fn lockkeeper(coordinator: &Coordinator, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command
        .args(arguments)
        .env("LOCKKEEPER_SERVER", coordinator.url())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true);
    command
}

/// When a lease that nobody renews any more ends at the latest. The store counts in whole
/// milliseconds.
pub(crate) async fn lease_end(redis: &RedisServer, name: &str) -> Instant {
    let left = redis.lease_left(name).await.expect("it is held");
    Instant::now() + left + millis(1)
}

/// The end of a lease, before which its holder must have been told.
pub(crate) struct LeaseEnd {
    /// By the test's clock, at the earliest.
    pub(crate) at: Instant,
    /// By the clock of the whole machine.
    pub(crate) on_the_wall: SystemTime,
}

/// Freezes the store while no renewal is near.
pub(crate) async fn freeze_between_renewals(
    redis: &RedisServer,
    name: &str,
    lease: Duration,
) -> LeaseEnd {
    loop {
        let expires = redis.text(&["PEXPIRETIME", name]).await.parse().unwrap();
        let asked = Instant::now();
        let left = redis.lease_left(name).await.expect("it is held");
        // Renewals come when two thirds are left.
        if left > lease * 9 / 10 {
            redis.stop();
            if left.saturating_sub(asked.elapsed()) > lease * 8 / 10 {
                return LeaseEnd {
                    at: asked + left,
                    on_the_wall: SystemTime::UNIX_EPOCH + millis(expires),
                };
            }
            redis.cont();
        }
        tokio::time::sleep(millis(5)).await;
    }
}

/// How many wait at the client's coordinator.
pub(crate) async fn waiter_count(client: &Client, name: &str) -> u32 {
    client.clone().describe(name).await.waiter_count
}

pub(crate) async fn until_waiting(client: &Client, name: &str, count: u32) {
    eventually("so many wait", || async {
        waiter_count(client, name).await == count
    })
    .await;
}

/// A wait in a session of its own, which has begun.
pub(crate) async fn wait_for(client: &mut Client, name: &str) -> (Session, u64) {
    let mut session = client.open().await;
    let op_id = session.send_acquire(name, "");
    match session.answer(op_id).await {
        Response::Waiting(_) => (session, op_id),
        other => panic!("expected waiting, got {other:?}"),
    }
}

/// The same, with the instant of the grant.
pub(crate) async fn timed_wait(
    client: &mut Client,
    name: &str,
) -> JoinHandle<(Instant, (pb::Grant, Session))> {
    let (mut session, op_id) = wait_for(client, name).await;
    timed(async move { (session.expect_granted(op_id).await, session) })
}

/// Gives a lock back, and says how long it took until the waiter had it.
pub(crate) async fn released_to(
    holder: &mut Session,
    name: &str,
    waiter: JoinHandle<(Instant, (pb::Grant, Session))>,
) -> (Span, (pb::Grant, Session)) {
    let released = Instant::now();
    assert!(holder.release(name).await.released);
    let (granted_at, granted) = waiter.await.unwrap();
    (between(released, granted_at), granted)
}

/// A confirmation's and an attempt's way, of which there is nothing to see from outside.
pub(crate) async fn until_settled() {
    tokio::time::sleep(millis(200)).await;
}

/// The waiter has tried again after its subscription was confirmed, and relies on messages now.
pub(crate) async fn until_relying_on_messages(redis: &RedisServer, name: &str) {
    let channel = channel(name);
    eventually("the channel is subscribed to", || async {
        let channels = redis.command(&["PUBSUB", "CHANNELS", &channel]).await;
        channels != Value::Array(Vec::new())
    })
    .await;
    until_settled().await;
}

pub(crate) async fn open_with_lease(client: &mut Client, lease: Duration) -> Session {
    let open = pb::OpenSession::default().lasting(lease);
    client.open_with(open).await.unwrap()
}

/// A request of a session's own call, besides its stream.
pub(crate) fn sessionless_wait(name: &str, owner: &str, lease: Duration) -> pb::AcquireRequest {
    acquire_request(name, owner).lasting(lease)
}

/// A loss was found out in time. The coordinator's own words show it, because on a busy machine the
/// notice takes longer to arrive here than the margin of a short lease.
pub(crate) async fn assert_told_in_time(coordinator: &Coordinator, end: &LeaseEnd) {
    let told_at = Instant::now();
    let early = end.at.saturating_duration_since(told_at);
    measured("told before the end of the lease", early);
    between(end.at, told_at).must_be_below(NOTICE_MAX, "told after the end of the lease");
    let lost_at = || coordinator.logged_at("grant lost");
    // The log is written by a thread of its own.
    eventually("it says so", async || lost_at().is_some()).await;
    let lost_at = lost_at().unwrap();
    assert!(lost_at < end.on_the_wall, "{lost_at:?} is too late");
}

/// Passes over warnings, of which the last is returned, until a grant is lost.
pub(crate) async fn lost_after_risk(
    session: &mut Session,
) -> (pb::GrantLost, Option<pb::SessionAtRisk>) {
    let mut risk = None;
    loop {
        match session.notice().await {
            Response::AtRisk(at_risk) => risk = Some(at_risk),
            Response::Recovered(_) => {}
            Response::Lost(lost) => return (lost, risk),
            other => panic!("expected at_risk or lost, got {other:?}"),
        }
    }
}

/// The channel of messages to the holders of locks, of coordinators without a key prefix.
const HOLDERS_CHANNEL: &str = "redisson_lock__channel:{lockkeeper_holders}";

/// Nothing but fencing counters is in the store, and nobody listens.
pub(crate) async fn expect_no_trace(redis: &RedisServer) {
    expect_only(redis, &["redisson_lock_token:"]).await;
}

/// The same of clients that may repeat what they ask: there are records of their requests too,
/// which end by themselves.
pub(crate) async fn expect_only_records(redis: &RedisServer) {
    expect_only(redis, &["redisson_lock_token:", "lockkeeper_request:"]).await;
    for record in keys_of(redis, "lockkeeper_request:*").await {
        let ends = redis.command(&["PTTL", &record]).await;
        assert_ne!(ends, Value::Int(-1), "{record} stays for ever");
    }
}

pub(crate) async fn keys_of(redis: &RedisServer, pattern: &str) -> Vec<String> {
    let Value::Array(keys) = redis.command(&["KEYS", pattern]).await else {
        panic!("not a list");
    };
    let name = |key: Value| match key {
        Value::BulkString(name) => String::from_utf8(name).unwrap(),
        other => panic!("{other:?}"),
    };
    keys.into_iter().map(name).collect()
}

async fn expect_only(redis: &RedisServer, beginnings: &[&str]) {
    // Ends of sessions are remembered.
    let beginnings = [beginnings, &["lockkeeper_ended:"]].concat();
    eventually("nothing is left in the store", || async {
        let keys = keys_of(redis, "*").await;
        let is_expected = |key: &String| beginnings.iter().any(|it| key.starts_with(it));
        keys.iter().all(is_expected)
    })
    .await;
    eventually("nobody listens", || async {
        let Value::Array(channels) = redis.command(&["PUBSUB", "CHANNELS"]).await else {
            panic!("not a list");
        };
        // But for each coordinator to what concerns its sessions.
        let is_expected = |it: &Value| *it == Value::BulkString(HOLDERS_CHANNEL.into());
        channels.iter().all(is_expected)
    })
    .await;
}

/// The coordinator lives and serves: a lock can be had and given back.
pub(crate) async fn expect_serving(coordinator: &Coordinator) {
    coordinator.assert_alive();
    let client = coordinator.client().await;
    eventually("it serves", || async {
        let mut client = client.clone();
        let owner = "somebody";
        match client.try_acquire("some-other-lock", owner, LEASE).await {
            Ok(tried) if tried.acquired => client
                .release("some-other-lock", owner)
                .await
                .is_ok_and(|it| it.released),
            _ => false,
        }
    })
    .await;
}
