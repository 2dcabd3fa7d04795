//! Clients that are killed, stopped or cut off while they wait or hold: nothing of them stays for
//! longer than it must.

use std::process::Stdio;

use crate::prelude::*;
use crate::{
    coordinator::client_at,
    steps::{LEASE, wait_for},
};

const KEEPALIVE: &str = "300ms";

/// A question and the time to answer it, and what a busy machine adds. The question comes up to one
/// interval after the last sign of life.
const GONE_AFTER_MAX: Duration = millis(300 + 300 + 600);

async fn watchful_coordinator() -> (RedisServer, Coordinator, Client) {
    let redis = RedisServer::start().await;
    let settings = settings_on(&redis.url())
        .with("server.keepalive_interval", KEEPALIVE)
        .with("server.keepalive_timeout", KEEPALIVE)
        // The record of what a command has got stays for so long.
        .with("store.request_retention", "1s");
    let coordinator = Coordinator::start(&settings).await;
    let client = coordinator.client().await;
    (redis, coordinator, client)
}

fn signal(process: &Child, signal: Signal) {
    let id = process.id().unwrap().try_into().unwrap();
    kill(Pid::from_raw(id), signal).unwrap();
}

/// A process that waits for a lock that somebody holds.
async fn waiting_process(coordinator: &Coordinator, client: &Client, name: &str) -> Child {
    let acquire = ["acquire", name, "--wait", "60s", "--lease", "2s"];
    let mut command = lockkeeper(coordinator, &acquire);
    let process = command.stderr(Stdio::null()).spawn().unwrap();
    until_waiting(client, name, 1).await;
    process
}

#[tokio::test]
async fn a_waiting_process_that_is_killed_leaves_nothing() {
    judged_by_time(async || {
        let (redis, coordinator, mut client) = watchful_coordinator().await;
        let mut session = client.open().await;
        session.acquire("build").await;
        let mut process = waiting_process(&coordinator, &client, "build").await;

        let killed = Instant::now();
        process.kill().await.unwrap();
        until_waiting(&client, "build", 0).await;
        since(killed).must_be_below(GONE_AFTER_MAX, "a killed client's wait ends");
        session.close().await.unwrap();
        expect_no_trace(&redis).await;
        expect_serving(&coordinator).await;
    })
    .await;
}

#[tokio::test]
async fn a_waiting_process_that_is_stopped_is_found_out_by_keepalives() {
    judged_by_time(async || {
        let (redis, coordinator, mut client) = watchful_coordinator().await;
        let mut session = client.open().await;
        session.acquire("build").await;
        let process = waiting_process(&coordinator, &client, "build").await;

        let stopped = Instant::now();
        signal(&process, Signal::SIGSTOP);
        until_waiting(&client, "build", 0).await;
        since(stopped).must_be_below(GONE_AFTER_MAX, "a stopped client's wait ends");
        session.close().await.unwrap();
        expect_no_trace(&redis).await;
        // When it goes on it waits anew, within the time that it may wait.
        signal(&process, Signal::SIGCONT);
        let output = process.wait_with_output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        expect_no_trace(&redis).await;
    })
    .await;
}

#[tokio::test]
async fn a_stopped_waiter_that_is_granted_the_lock_keeps_it_for_its_lease_at_most() {
    judged_by_time(async || {
        let (redis, coordinator, mut client) = watchful_coordinator().await;
        let mut session = client.open().await;
        session.acquire("build").await;
        let process = waiting_process(&coordinator, &client, "build").await;
        // The connection still looks alive, so the grant goes out to nobody.
        signal(&process, Signal::SIGSTOP);
        session.close().await.unwrap();
        let begun = Instant::now();
        eventually("its lease is over", || async {
            redis.lease_left("build").await.is_none()
        })
        .await;
        since(begun).must_be_below(LEASE + millis(700), "a stopped holder's lease ends");
        expect_no_trace(&redis).await;
        drop(process);
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_cut_off_loses_its_waits_soon_and_its_locks_with_their_leases() {
    judged_by_time(async || {
        const WAITS: u32 = 200;
        let (redis, coordinator, mut client) = watchful_coordinator().await;
        let proxy = TcpProxy::to(coordinator.address().port()).await;
        let mut far = client_at(proxy.address()).await;
        let mut holder = client.open().await;
        holder.acquire("contended").await;
        let mut session = far.open().await;
        for owner in 0..WAITS {
            session.send_acquire("contended", &owner.to_string());
        }
        let kept = session.acquire("kept").await;
        let release = pb::OpenSession::default().upon_disconnect(pb::OnDisconnect::Release);
        let mut given_back = far.open_with(release).await.unwrap();
        given_back.acquire("given-back").await;
        until_waiting(&client, "contended", WAITS).await;
        let (mut next, op_id) = wait_for(&mut client, "kept").await;
        let next = timed(async move { next.expect_granted(op_id).await });

        let cut = Instant::now();
        proxy.silence();
        until_waiting(&client, "contended", 0).await;
        since(cut).must_be_below(GONE_AFTER_MAX, "the waits of a client that was cut off end");
        eventually("given back at once", || async {
            redis.lease_left("given-back").await.is_none()
        })
        .await;
        since(cut).must_be_below(LEASE, "given back for a client that was cut off");
        let (granted_at, grant) = next.await.unwrap();
        // Its last renewal may have come just before it was found out.
        let after = granted_at - cut;
        assert!(after < GONE_AFTER_MAX + LEASE + millis(200), "{after:?}");
        assert!(after > LEASE / 3, "{after:?}: its lease was still running");
        assert!(grant.fencing_token > kept.fencing_token);
        holder.close().await.unwrap();
        expect_serving(&coordinator).await;
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_cut_off_is_not_taken_for_one_that_said_goodbye() {
    judged_by_time(async || {
        const CLIENTS: usize = 20;
        /// Still running when the loss of the connections has been noticed, also on a busy machine.
        const LONG: Duration = secs(6);
        let (redis, coordinator, client) = watchful_coordinator().await;
        let proxy = TcpProxy::to(coordinator.address().port()).await;
        let mut sessions = Vec::new();
        for number in 0..CLIENTS {
            let mut session = open_with_lease(&mut client_at(proxy.address()).await, LONG).await;
            session.acquire(&format!("build-{number}")).await;
            // Shows when the loss of the connection has been noticed.
            session.send_acquire(&format!("build-{number}"), "another");
            sessions.push(session);
        }
        proxy.silence();
        let cut = Instant::now();
        for number in 0..CLIENTS {
            until_waiting(&client, &format!("build-{number}"), 0).await;
        }
        // None of what they held may have been given back: they may still be at work.
        let left = join_all((0..CLIENTS).map(|number| {
            let redis = &redis;
            async move { redis.lease_left(&format!("build-{number}")).await }
        }))
        .await;
        since(cut).must_be_below(
            LONG / 2,
            "the waits of twenty clients that were cut off end",
        );
        assert!(left.iter().all(Option::is_some), "{left:?}");
        expect_no_trace(&redis).await;
        expect_serving(&coordinator).await;
    })
    .await;
}
