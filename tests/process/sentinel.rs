//! A store whose master may die: sentinels elect another one, and everything goes on there.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use deadpool_redis::redis;

use crate::prelude::*;
use crate::{
    fake_redis::{FakeRedis, bulk},
    refusing_port::RefusingPort,
    steps::wait_for,
};

/// Until the sentinels have agreed, and then some.
const FAILOVER_MAX: std::time::Duration = secs(12);

async fn deployment() -> (Sentinels, Coordinator) {
    let store = Sentinels::start().await;
    let settings = Settings::on(&store.url())
        .with("session.lease", "20s")
        .with("store.call_timeout", "300ms");
    let coordinator = Coordinator::start(&settings).await;
    expect_serving(&coordinator).await;
    (store, coordinator)
}

#[tokio::test]
async fn the_documented_permissions_on_sentinels_are_enough() {
    let document = include_str!("../../docs/configuration/store.md");
    let from = document.rfind("ACL SETUSER").expect("it shows one");
    let command = document[from..].split("```").next().unwrap();
    let mut set_user = redis::Cmd::new();
    command.split_whitespace().for_each(|word| {
        set_user.arg(word);
    });
    let store = Sentinels::start().await;
    let ask = async |command: &redis::Cmd| {
        let mut answers = Vec::new();
        for sentinel in &store.sentinels {
            let client = redis::Client::open(format!("redis://{}", sentinel.address())).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            answers.push(connection.send_packed_command(command).await.unwrap());
        }
        answers
    };
    let done = redis::Value::Okay;
    assert_eq!(ask(&set_user).await, [done.clone(), done.clone(), done]);

    let login = "sentinel_user=lockkeeper&sentinel_password=PASSWORD";
    let coordinator = Coordinator::start(&Settings::on(&format!("{}?{login}", store.url()))).await;
    expect_serving(&coordinator).await;
    eventually("all tell of elections", || async {
        let clients = ask(redis::cmd("CLIENT").arg("LIST")).await;
        clients.into_iter().all(|clients| {
            let clients: String = redis::from_redis_value(clients).unwrap();
            let mut ours = clients
                .lines()
                .filter(|it| it.contains(" user=lockkeeper "));
            ours.any(|client| client.contains(" sub=2 "))
        })
    })
    .await;
    let denied = ask(redis::cmd("ACL").arg("LOG")).await;
    let none = redis::Value::Array(Vec::new());
    assert!(denied.iter().all(|it| *it == none), "{denied:?}");
    assert!(!coordinator.log().contains("not all sentinels"));
}

#[tokio::test]
async fn the_first_callers_wait_until_the_sentinels_have_named_the_master() {
    let store = Sentinels::start().await;
    for owner in ["a", "b", "c", "d", "e"] {
        let coordinator = Coordinator::start(&Settings::on(&store.url())).await;
        let mut client = coordinator.client().await;
        client.try_acquire("build", owner, secs(9)).await.unwrap();
    }
}

#[tokio::test]
async fn callers_are_told_soon_that_no_sentinel_answers() {
    judged_by_time(async || {
        let port = RefusingPort::take();
        let store = format!("redis+sentinel://127.0.0.1:{}/locks", port.number);
        let coordinator = Coordinator::start(&Settings::on(&store)).await;
        let mut client = coordinator.client().await;
        for limit in [secs(2), secs(1)] {
            let asked = Instant::now();
            let refused = client.try_acquire("build", "x", secs(9)).await.unwrap_err();
            assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
            since(asked).must_be_below(limit, "refused without sentinels");
        }
    })
    .await;
}

/// Replicas know what they are asked about.
pub(crate) async fn until_replicated(store: &Sentinels, name: &str) {
    eventually("the replicas have the lock", || async {
        let mut have = 0;
        for server in &store.servers {
            have += usize::from(server.text(&["EXISTS", name]).await == "1");
        }
        have == store.servers.len()
    })
    .await;
}

#[tokio::test]
async fn mission_21_a_master_that_is_killed_is_replaced_and_grants_and_waits_live_on() {
    judged_by_time(async || {
        let (mut store, coordinator) = deployment().await;
        let mut client = coordinator.client().await;
        let mut holder = client.open().await;
        let held = holder.acquire("build").await;
        let waiting = timed_wait(&mut client, "build").await;
        until_replicated(&store, "build").await;

        let before = store.master().await.expect("there is a master");
        let killed = Instant::now();
        store.servers[before].kill();
        let master = store.until_another_than(before).await;
        eventually("the grant is renewed on the new master", || async {
            let left = store.servers[master].text(&["PTTL", "build"]).await;
            left.parse::<i64>().unwrap() > 19_000
        })
        .await;
        since(killed).must_be_below(FAILOVER_MAX, "until a renewal after the master's death");
        assert!(!waiting.is_finished());
        assert!(released(&mut holder, "build").await);
        let (_, (granted, _session)) = waiting.await.unwrap();
        assert!(granted.fencing_token > held.fencing_token);
        expect_serving(&coordinator).await;
    })
    .await;
}

#[tokio::test]
async fn a_grant_that_the_new_master_does_not_know_is_told_as_lost() {
    let (mut store, coordinator) = deployment().await;
    let mut client = coordinator.client().await;
    let mut holder = client.open().await;
    let before = store.master().await.expect("there is a master");
    // What is written from now on does not reach the replicas, which the sentinels take for
    // connected all the same.
    for (number, server) in store.servers.iter().enumerate() {
        if number != before {
            server.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
        }
    }
    holder.acquire("build").await;
    store.servers[before].kill();
    let (lost, _) = lost_after_risk(&mut holder).await;
    assert_eq!(lost.reason, i32::from(LostReason::Expired));
    expect_serving(&coordinator).await;
}

#[tokio::test]
async fn a_master_that_comes_back_after_a_freeze_is_not_believed() {
    let (store, coordinator) = deployment().await;
    let mut client = coordinator.client().await;
    let mut holder = client.open().await;
    holder.acquire("build").await;
    until_replicated(&store, "build").await;
    let before = store.master().await.expect("there is a master");
    store.servers[before].stop();
    let master = store.until_another_than(before).await;
    assert!(released(&mut holder, "build").await);
    let mut second = client.open().await;
    let newer = second.acquire("build").await;
    store.servers[before].cont();
    // It takes itself for the master until the sentinels make a replica of it; nobody asks it.
    let (mut waiter, op_id) = wait_for(&mut client, "build").await;
    second.release("build").await;
    let newest = waiter.expect_granted(op_id).await;
    assert!(newest.fencing_token > newer.fencing_token);
    let on_master = store.servers[master].text(&["EXISTS", "build"]).await;
    assert_eq!(on_master, "1");
}

#[tokio::test]
async fn a_master_that_comes_back_after_its_death_is_not_believed() {
    returns_after_its_death(&[]).await;
}

#[tokio::test]
async fn nor_is_it_while_a_sentinel_takes_connections_and_says_nothing() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    returns_after_its_death(&[silent.local_addr().unwrap().port()]).await;
}

/// With two sentinels that answer, and with those at these ports.
async fn returns_after_its_death(others: &[u16]) {
    let mut servers = [RedisServer::start().await, RedisServer::start().await];
    let elected = Arc::new(AtomicU16::new(servers[0].port()));
    let epoch = Arc::new(AtomicU64::new(1));
    let old = servers[1].port();
    let start = || {
        let (elected, epoch) = (Arc::clone(&elected), Arc::clone(&epoch));
        FakeRedis::start(move |words| {
            let (port, epoch) = (elected.load(Ordering::SeqCst), epoch.load(Ordering::SeqCst));
            // Who leads the election has the new epoch, but says of the new master only when asked
            // for the address.
            sentinel_says(words, epoch, old, port)
        })
    };
    let sentinels = [start().await, start().await];
    let ports = sentinels.iter().map(FakeRedis::port);
    let ports = ports.chain(others.iter().copied());
    let hosts: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    let url = format!("redis+sentinel://{}/locks", hosts.join(","));
    let coordinator = Coordinator::start(&Settings::on(&url)).await;
    expect_serving(&coordinator).await;
    for round in 0..6 {
        let (dies, lives) = (round % 2, 1 - round % 2);
        // The election and the return happen between two regular looks at the sentinels.
        servers[dies].kill();
        epoch.fetch_add(1, Ordering::SeqCst);
        elected.store(servers[lives].port(), Ordering::SeqCst);
        servers[dies].restart_on_same_port().await;
        let (mut client, name) = (coordinator.client().await, format!("build-{round}"));
        while client.try_acquire(&name, "x", secs(30)).await.is_err() {}
        assert_eq!(servers[dies].text(&["EXISTS", &name]).await, "0");
        assert_eq!(servers[lives].text(&["EXISTS", &name]).await, "1");
    }
}

#[tokio::test]
async fn sentinels_that_tell_of_an_election_are_asked_at_once() {
    const ELECTIONS: u64 = 100;
    let server = RedisServer::start().await;
    let asked = Arc::new(AtomicU64::new(0));
    let (counted, port) = (Arc::clone(&asked), server.port());
    let sentinel = FakeRedis::start(move |words| {
        let mut said = sentinel_says(words, 0, port, port)?;
        // Asked at the interval only, it would take most of a minute to tell of all of them.
        if words[1] == "MASTER" && counted.fetch_add(1, Ordering::SeqCst) < ELECTIONS {
            said = format!(
                "{}{said}",
                push(&["message", "+switch-master", "locks"].map(bulk))
            );
        }
        Some(said)
    })
    .await;
    let url = format!("redis+sentinel://127.0.0.1:{}/locks", sentinel.port());
    let _coordinator = Coordinator::start(&Settings::on(&url)).await;
    eventually("asked for each election", || async {
        asked.load(Ordering::SeqCst) > ELECTIONS
    })
    .await;
}

/// What a sentinel answers to commands of its own, in capitals.
pub(crate) fn sentinel_says(
    words: &[String],
    epoch: u64,
    listed: u16,
    elected: u16,
) -> Option<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (listed, elected) = (listed.to_string(), elected.to_string());
    match words.as_slice() {
        ["SENTINEL", "MASTER", _] => {
            let epoch = epoch.to_string();
            let said = ["ip", "127.0.0.1", "port", &listed, "config-epoch", &epoch];
            Some(format!("*6\r\n{}", said.map(bulk).concat()))
        }
        ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", _] => {
            let said = ["127.0.0.1", &elected].map(bulk);
            Some(format!("*2\r\n{}", said.concat()))
        }
        ["SUBSCRIBE", channels @ ..] => {
            let confirmed = channels.iter().zip(1..).map(|(channel, count)| {
                push(&[bulk("subscribe"), bulk(channel), format!(":{count}\r\n")])
            });
            Some(confirmed.collect())
        }
        _ => None,
    }
}

fn push(parts: &[String; 3]) -> String {
    format!(">3\r\n{}", parts.concat())
}

#[tokio::test]
async fn sentinels_may_come_and_go() {
    let (mut store, coordinator) = deployment().await;
    store.sentinels[2].kill();
    let before = store.master().await.expect("there is a master");
    store.servers[before].kill();
    store.until_another_than(before).await;
    expect_serving(&coordinator).await;
}

/// Gives the lock back, again while the store changes hands.
async fn released(session: &mut Session, name: &str) -> bool {
    let deadline = Instant::now() + FAILOVER_MAX;
    loop {
        let op_id = session.send(Request::Release(
            pb::ReleaseRequest::named(name).with_id("once"),
        ));
        match session.answer(op_id).await {
            Response::Released(released) => return released.released,
            Response::Failed(_) if Instant::now() < deadline => {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            other => panic!("{other:?}"),
        }
    }
}
