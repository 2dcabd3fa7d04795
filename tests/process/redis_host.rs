//! The Redis host against a real server, and against everything that happens to servers.

use lockkeeper_store::host::{Connected, HostError, Script, Value, Wake};

use crate::hosts::{Host, eval, host_with, message, next_wake};
use crate::prelude::*;

static APPEND: Script = Script::new("append", "return redis.call('rpush', KEYS[1], ARGV[1])");
static STORE: Script = Script::new("store", "return redis.call('set', KEYS[1], ARGV[1])");
static NOTHING: Script = Script::new("nothing", "return false");

/// Short, so that tests which wait for it are quick; long enough for a busy machine.
const CALL_TIMEOUT: Duration = Duration::from_millis(500);

/// What "at once" means on a busy machine.
const AT_ONCE: Duration = Duration::from_millis(400);

fn host_at(url: &str) -> Connected {
    host_with(url, |it| {
        it.call_timeout = CALL_TIMEOUT;
        // More than by default: which one a call takes matters only then.
        it.connections = 2;
    })
}

async fn append(host: &Host, key: &str, item: &str) -> Result<Value, HostError> {
    eval(host, &APPEND, key, item).await
}

async fn expect_unavailable(host: &Host, key: &str, item: &str) {
    let answer = append(host, key, item).await;
    assert!(
        matches!(answer, Err(HostError::Unavailable(_))),
        "{answer:?}"
    );
}

async fn until_served(host: &Host, key: &str, item: &str) {
    eventually("calls succeed", || async {
        append(host, key, item).await.is_ok()
    })
    .await;
}

fn expect_all_unknown(answers: &[Result<Value, HostError>]) {
    let is_unknown = |it: &Result<_, _>| matches!(it, Err(HostError::OutcomeUnknown(_)));
    assert!(answers.iter().all(is_unknown), "{answers:?}");
}

/// The ids of the connections that calls are made over: they stay the same as long as the
/// connections do.
async fn connection_ids(server: &RedisServer) -> Vec<String> {
    let list = server.text(&["CLIENT", "LIST"]).await;
    let ours = list.lines().filter(|line| line.contains("name=lockkeeper"));
    ours.filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn a_script_is_loaded_once_and_again_after_a_flush() {
    let server = RedisServer::start().await;
    let (host, _wakes) = host_at(&server.url());
    let monitor = server.monitor().await;
    for (count, item) in [(1, "a"), (2, "b")] {
        assert_eq!(append(&host, "list", item).await, Ok(Value::Int(count)));
    }
    server.command(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(append(&host, "list", "c").await, Ok(Value::Int(3)));
    assert_eq!(
        eval(&host, &STORE, "k", "v").await,
        Ok(Value::Bytes("OK".into()))
    );
    assert_eq!(eval(&host, &NOTHING, "k", "").await, Ok(Value::Nil));

    let lines = monitor.lines(&server).await;
    let texts = lines
        .iter()
        .filter(|line| line.contains("\"EVAL\"") && line.contains("rpush"));
    assert_eq!(texts.count(), 2);
}

#[tokio::test]
async fn a_host_starts_without_its_server() {
    let mut server = RedisServer::start().await;
    server.kill();
    let (host, _wakes) = host_at(&server.url());
    expect_unavailable(&host, "list", "a").await;
    server.restart_on_same_port().await;
    until_served(&host, "list", "b").await;
}

#[tokio::test]
async fn a_killed_server_is_unavailable_at_once_and_comes_back() {
    judged_by_time(async || {
        let mut server = RedisServer::start().await;
        let (host, mut wakes) = host_at(&server.url());
        assert_eq!(append(&host, "list", "a").await, Ok(Value::Int(1)));
        host.subscribe("channel").await.expect("subscribed");

        server.kill();
        eventually("the host notices", || async {
            matches!(
                append(&host, "list", "b").await,
                Err(HostError::Unavailable(_))
            )
        })
        .await;
        for _ in 0..100 {
            let asked = Instant::now();
            expect_unavailable(&host, "list", "c").await;
            since(asked).must_be_below(AT_ONCE, "refused by a host without a server");
        }

        server.restart_on_same_port().await;
        until_served(&host, "list", "d").await;
        assert_eq!(next_wake(&mut wakes).await, Wake::Gap);
        server.command(&["PUBLISH", "channel", "1"]).await;
        assert_eq!(next_wake(&mut wakes).await, message("channel", "1"));
    })
    .await;
}

#[tokio::test]
async fn a_frozen_server_keeps_its_connections_and_the_order_of_calls() {
    judged_by_time(async || {
        let server = RedisServer::start().await;
        let (host, _wakes) = host_at(&server.url());
        let keys = ["a", "b", "c", "d"];
        for key in keys {
            assert_eq!(append(&host, key, "before").await, Ok(Value::Int(1)));
        }
        let connections = connection_ids(&server).await;

        server.stop();
        let asked = Instant::now();
        let calls = join_all(keys.map(|key| append(&host, key, "timed out"))).await;
        expect_all_unknown(&calls);
        since(asked).must_be_below(CALL_TIMEOUT + AT_ONCE, "calls of a frozen server time out");
        let calls = join_all(keys.map(|key| append(&host, key, "later"))).await;
        expect_all_unknown(&calls);
        // Load is turned away, before it fills the connection and the kernel gives that up.
        let load = join_all((0..500).map(|_| append(&host, "load", "x"))).await;
        let turned_away = load
            .iter()
            .filter(|it| matches!(it, Err(HostError::Unavailable(_))))
            .count();
        assert!(turned_away > 400, "{turned_away}");

        server.cont();
        until_served(&host, "load", "x").await;
        for key in keys {
            eventually("all calls have run", || async {
                server.text(&["LLEN", key]).await == "3"
            })
            .await;
            assert_eq!(server.text(&["LINDEX", key, "1"]).await, "timed out");
            assert_eq!(server.text(&["LINDEX", key, "2"]).await, "later");
        }
        assert_eq!(connection_ids(&server).await, connections);
    })
    .await;
}

#[tokio::test]
async fn killed_subscriptions_are_a_gap_and_flow_again() {
    let server = RedisServer::start().await;
    let (host, mut wakes) = host_at(&server.url());
    for channel in ["x", "y"] {
        host.subscribe(channel).await.expect("subscribed");
    }
    for _ in 0..5 {
        assert_eq!(
            server.text(&["CLIENT", "KILL", "TYPE", "pubsub"]).await,
            "1"
        );
        assert_eq!(next_wake(&mut wakes).await, Wake::Gap);
        server.command(&["PUBLISH", "y", "hello"]).await;
        assert_eq!(next_wake(&mut wakes).await, message("y", "hello"));
    }
}

#[tokio::test]
async fn killed_connections_are_replaced() {
    let server = RedisServer::start().await;
    let (host, _wakes) = host_at(&server.url());
    for _ in 0..5 {
        server
            .command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
            .await;
        until_served(&host, "list", "a").await;
    }
}

#[tokio::test]
async fn subscriptions_that_fell_silent_are_noticed() {
    judged_by_time(async || {
        let server = RedisServer::start().await;
        let proxy = TcpProxy::to(server.port()).await;
        let (host, mut wakes) = host_at(&proxy.url());
        host.subscribe("channel").await.expect("subscribed");

        let silenced = Instant::now();
        proxy.silence();
        server.command(&["PUBLISH", "channel", "lost"]).await;
        assert_eq!(next_wake(&mut wakes).await, Wake::Gap);
        since(silenced).must_be_below(Duration::from_secs(2) + AT_ONCE, "silence is noticed");
        server.command(&["PUBLISH", "channel", "found"]).await;
        assert_eq!(next_wake(&mut wakes).await, message("channel", "found"));
    })
    .await;
}

#[tokio::test]
async fn connections_that_fell_silent_are_replaced() {
    let server = RedisServer::start().await;
    let proxy = TcpProxy::to(server.port()).await;
    let (host, _wakes) = host_at(&proxy.url());
    append(&host, "list", "a").await.expect("connected");
    proxy.silence();
    assert!(matches!(
        append(&host, "list", "b").await,
        Err(HostError::OutcomeUnknown(_))
    ));
    until_served(&host, "list", "c").await;
}

#[tokio::test]
async fn a_master_that_was_replaced_behind_its_address_is_left() {
    let (old, new) = (RedisServer::start().await, RedisServer::start().await);
    let proxy = TcpProxy::to(old.port()).await;
    let (host, _wakes) = host_at(&proxy.url());
    append(&host, "list", "a").await.expect("connected");
    proxy.lead_to(new.port());
    old.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    until_served(&host, "list", "b").await;
    assert_eq!(new.text(&["LINDEX", "list", "0"]).await, "b");
}

#[tokio::test]
async fn no_more_clients_is_an_error_and_no_wait() {
    judged_by_time(async || {
        let server = RedisServer::start().await;
        server.command(&["CONFIG", "SET", "maxclients", "1"]).await;
        let (host, _wakes) = host_at(&server.url());
        let asked = Instant::now();
        expect_unavailable(&host, "list", "a").await;
        assert!(host.subscribe("channel").await.is_err());
        since(asked).must_be_below(CALL_TIMEOUT + AT_ONCE, "refused by a full server");

        server
            .command(&["CONFIG", "SET", "maxclients", "100"])
            .await;
        until_served(&host, "list", "a").await;
    })
    .await;
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let server = RedisServer::start().await;
    let (host, _wakes) = host_at(&server.url());
    server.command(&["SET", "text", "abc"]).await;
    assert!(matches!(
        append(&host, "text", "a").await,
        Err(HostError::Rejected { code, .. }) if code == "WRONGTYPE"
    ));

    server.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(
        append(&host, "list", "a").await,
        Err(HostError::OutOfMemory)
    );
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).await;

    server
        .command(&["CONFIG", "SET", "min-replicas-to-write", "1"])
        .await;
    expect_unavailable(&host, "list", "a").await;
    server
        .command(&["CONFIG", "SET", "min-replicas-to-write", "0"])
        .await;

    server.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    expect_unavailable(&host, "list", "a").await;
    server.command(&["REPLICAOF", "NO", "ONE"]).await;
    until_served(&host, "list", "a").await;
}

#[tokio::test]
async fn an_idle_client_is_silent() {
    let server = RedisServer::start().await;
    let (host, _wakes) = host_at(&server.url());
    assert_eq!(append(&host, "list", "a").await, Ok(Value::Int(1)));
    host.subscribe("channel").await.expect("subscribed");
    host.unsubscribe("channel");
    eventually("nobody is subscribed", || async {
        server.command(&["PUBSUB", "CHANNELS"]).await
            == deadpool_redis::redis::Value::Array(Vec::new())
    })
    .await;
    // The look at the settings, which comes after the first connection, is over when its connection
    // is closed.
    eventually("the settings were looked at", || async {
        server
            .text(&["INFO", "commandstats"])
            .await
            .contains("cmdstat_config")
            && connection_ids(&server).await.len() == 3
    })
    .await;

    let monitor = server.monitor().await;
    // Nothing to wait for here: that nothing happens shows only when time has passed, more than
    // between two probes.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(monitor.lines(&server).await, Vec::<String>::new());
}

#[tokio::test]
async fn many_channels() {
    const CHANNELS: usize = 10_000;
    let server = RedisServer::start().await;
    let (host, mut wakes) = host_at(&server.url());
    let names: Vec<_> = (0..CHANNELS).map(|i| format!("channel-{i}")).collect();
    let all = join_all(names.iter().map(|name| host.subscribe(name))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(channels(&server).await, CHANNELS);

    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    assert_eq!(next_wake(&mut wakes).await, Wake::Gap);
    assert_eq!(
        channels(&server).await,
        CHANNELS,
        "the gap is told when all are back"
    );

    for name in &names {
        host.unsubscribe(name);
    }
    eventually("all are gone", || async { channels(&server).await == 0 }).await;
}

#[tokio::test]
async fn the_last_wish_for_a_channel_wins() {
    let server = RedisServer::start().await;
    let (host, mut wakes) = host_at(&server.url());
    for round in 0..100 {
        for _ in 0..round % 4 {
            host.subscribe("channel").await.expect("subscribed");
            host.unsubscribe("channel");
        }
        host.subscribe("channel").await.expect("subscribed");
        assert_eq!(server.text(&["PUBLISH", "channel", "1"]).await, "1");
        assert_eq!(next_wake(&mut wakes).await, message("channel", "1"));
        host.unsubscribe("channel");
    }
    eventually("nobody is subscribed", || async {
        channels(&server).await == 0
    })
    .await;
}

#[tokio::test]
async fn a_dropped_host_closes_its_connections() {
    let server = RedisServer::start().await;
    let (host, _wakes) = host_at(&server.url());
    host.subscribe("channel").await.expect("subscribed");
    append(&host, "list", "a").await.expect("connected");
    server.stop();
    assert!(append(&host, "list", "a").await.is_err());
    drop(host);
    server.cont();
    eventually("nobody is connected", || async {
        connection_ids(&server).await.is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_server_that_takes_connections_and_says_nothing_is_unavailable() {
    judged_by_time(async || {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (host, _wakes) = host_at(&format!("redis://{address}"));
        TcpStream::connect(address)
            .await
            .expect("it takes connections");
        let asked = Instant::now();
        expect_unavailable(&host, "list", "a").await;
        since(asked).must_be_below(CALL_TIMEOUT + AT_ONCE, "refused by a silent server");
    })
    .await;
}

async fn channels(server: &RedisServer) -> usize {
    match server.command(&["PUBSUB", "CHANNELS"]).await {
        deadpool_redis::redis::Value::Array(names) => names.len(),
        other => panic!("{other:?}"),
    }
}
