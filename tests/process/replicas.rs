//! Grants that replicas must know of, on a real master with real replicas.

use std::collections::BTreeMap;

use crate::prelude::*;
use crate::steps::Span;

/// How long the coordinators of these tests wait for replicas.
const ACK_TIMEOUT: std::time::Duration = millis(400);

/// A master and its replicas, which are ended with this.
struct Replicated {
    master: RedisServer,
    replicas: Vec<RedisServer>,
}

impl Replicated {
    async fn start(replicas: usize) -> Self {
        // Without this a replica that connects is kept waiting for others to come.
        let at_once = ["--repl-diskless-sync-delay", "0"];
        let master = RedisServer::start_with(&at_once).await;
        let port = master.port().to_string();
        let mut this = Self {
            master,
            replicas: Vec::new(),
        };
        for _ in 0..replicas {
            let arguments = ["--replicaof", "127.0.0.1", &port];
            this.replicas
                .push(RedisServer::start_with(&arguments).await);
        }
        this.until_online(replicas).await;
        this
    }

    /// So many replicas are connected, and have all that was written: one that has just come is
    /// busy for a while.
    async fn until_online(&self, count: usize) {
        let wanted = count.to_string();
        eventually("so many replicas are online", || async {
            let info = self.master.info("replication").await;
            self.master.command(&["SET", "mark", "1", "PX", "1"]).await;
            let known_to = self.master.text(&["WAIT", &wanted, "100"]).await;
            info.matches("state=online").count() == count && known_to == wanted
        })
        .await;
    }

    fn settings(&self) -> Settings {
        settings_on(&self.master.url())
            .with("store.replica_ack_timeout", "400ms")
            .with("session.lease", "60s")
    }

    async fn coordinator(&self, settings: &Settings) -> (Coordinator, Client) {
        let coordinator = Coordinator::start(settings).await;
        coordinator.until_connected(1).await;
        let client = coordinator.client().await;
        (coordinator, client)
    }
}

fn wanting(name: &str, min_replica_acks: u32) -> pb::TryAcquireRequest {
    try_request(name, "x").acked_by(min_replica_acks)
}

/// How often the server was asked for something since it was started.
async fn calls(redis: &RedisServer, command: &str) -> usize {
    let stats = redis.info("commandstats").await;
    let start = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&start));
    let count = line.and_then(|rest| rest.split(',').next());
    count.map_or(0, |count| count.parse().unwrap())
}

fn waited_for_acks(span: Span) {
    assert!(span.took() >= ACK_TIMEOUT, "{span:?}");
    span.must_be_below(ACK_TIMEOUT + PROMPT, "refused for want of replicas");
}

#[tokio::test]
async fn mission_22_replicas_that_know_of_a_grant_are_counted() {
    judged_by_time(async || {
        let redis = Replicated::start(2).await;
        let (_coordinator, mut client) = redis.coordinator(&redis.settings()).await;
        for wanted in [1, 2] {
            let name = format!("build-{wanted}");
            let tried = client.try_with(wanting(&name, wanted)).await.unwrap();
            let grant = tried.grant.unwrap();
            assert!(grant.replica_acks >= wanted, "{grant:?}");
            let knowing = join_all(redis.replicas.iter().map(|replica| {
                let name = name.clone();
                async move { replica.lease_left(&name).await.is_some() }
            }));
            let knowing = knowing.await.into_iter().filter(|knows| *knows).count();
            assert!(knowing >= wanted as usize, "{knowing} of {wanted}");
            client.release(&name, "x").await.unwrap();
        }
        let asked = Instant::now();
        let refused = client.try_with(wanting("build", 3)).await.unwrap_err();
        assert_eq!(reason(&refused), "NOT_REPLICATED", "{refused}");
        assert!(refused.message().contains("2 of 3"), "{refused}");
        waited_for_acks(since(asked));
        assert_eq!(redis.master.lease_left("build").await, None);
    })
    .await;
}

#[tokio::test]
async fn mission_22_while_a_replica_stands_still_only_those_wait_who_asked_for_it() {
    judged_by_time(async || {
        let redis = Replicated::start(1).await;
        let (_coordinator, mut client) = redis.coordinator(&redis.settings()).await;
        let first = client.try_with(wanting("warm-up", 1)).await.unwrap();
        assert_eq!(first.grant.unwrap().replica_acks, 1);
        redis.replicas[0].stop();
        let careful = join_all((0..20).map(|number| {
            let mut other = client.clone();
            let request = wanting(&format!("careful-{number}"), 1);
            async move {
                let asked = Instant::now();
                let refused = other.try_with(request).await.unwrap_err();
                (reason(&refused), since(asked))
            }
        }));
        let others = async {
            for number in 0..50 {
                let asked = Instant::now();
                let mut other = client.clone();
                let tried = other
                    .try_with(wanting(&format!("careless-{number}"), 0))
                    .await;
                assert_eq!(tried.unwrap().grant.unwrap().replica_acks, 0);
                since(asked).must_be_below(ACK_TIMEOUT / 2, "one that asked for no replica");
            }
        };
        let (careful, ()) = tokio::join!(careful, others);
        for (number, (reason, took)) in careful.into_iter().enumerate() {
            assert_eq!(reason, "NOT_REPLICATED");
            waited_for_acks(took);
            let left = redis.master.lease_left(&format!("careful-{number}")).await;
            assert_eq!(left, None, "it is free when the answer comes");
        }
        redis.replicas[0].cont();
        let tried = client.try_with(wanting("after", 1)).await.unwrap();
        assert_eq!(tried.grant.unwrap().replica_acks, 1);
    })
    .await;
}

#[tokio::test]
async fn a_slow_number_does_not_hold_up_another() {
    judged_by_time(async || {
        let redis = Replicated::start(2).await;
        let (_coordinator, client) = redis.coordinator(&redis.settings()).await;
        redis.replicas[1].stop();
        let (mut two, mut one) = (client.clone(), client.clone());
        let too_many = async {
            let refused = two.try_with(wanting("two", 2)).await.unwrap_err();
            (reason(&refused), Instant::now())
        };
        let enough = async {
            for number in 0..20 {
                let asked = Instant::now();
                let request = wanting(&format!("one-{number}"), 1);
                assert!(one.try_with(request).await.unwrap().acquired);
                since(asked).must_be_below(ACK_TIMEOUT / 2, "one that one replica is enough for");
            }
            Instant::now()
        };
        let ((reason, refused_at), granted_at) = tokio::join!(too_many, enough);
        assert_eq!(reason, "NOT_REPLICATED");
        assert!(granted_at < refused_at);
    })
    .await;
}

#[tokio::test]
async fn many_that_wait_at_once_wait_together() {
    const CALLERS: usize = 64;
    let redis = Replicated::start(1).await;
    let (_coordinator, client) = redis.coordinator(&redis.settings()).await;
    let before = calls(&redis.master, "wait").await;
    let begun = Instant::now();
    let all = (0..CALLERS).map(|number| {
        let mut other = client.clone();
        let request = wanting(&format!("build-{number}"), 1);
        async move { other.take(request).await }
    });
    let grants = join_all(all).await;
    measured("64 acquires that a replica knows of", begun.elapsed());
    assert!(grants.iter().all(|grant| grant.replica_acks == 1));
    let waits = calls(&redis.master, "wait").await - before;
    measured(&format!("{waits} WAITs for them"), begun.elapsed());
    assert!(
        (1..=CALLERS / 4).contains(&waits),
        "{waits} WAITs for {CALLERS} callers"
    );
}

#[tokio::test]
async fn a_policy_of_none_costs_not_one_command() {
    let redis = Replicated::start(1).await;
    let (_coordinator, mut client) = redis.coordinator(&redis.settings()).await;
    for name in ["warm", "up"] {
        client.try_acquire(name, "x", secs(60)).await.unwrap();
        client.release(name, "x").await.unwrap();
    }
    let before = command_counts(&redis.master).await;
    client.try_acquire("build", "x", secs(60)).await.unwrap();
    client.renew("build", "x", secs(60)).await.unwrap();
    client.release("build", "x").await.unwrap();
    let mut counts = command_counts(&redis.master).await;
    counts.retain(|name, count| {
        *count -= before.get(name).copied().unwrap_or(0);
        *count > 0
    });
    let foreign = ["ping", "info", "replconf"];
    counts.retain(|name, _| !foreign.contains(&name.as_str()));
    assert_eq!(counts.get("evalsha"), Some(&3), "{counts:?}");
    let waited = ["wait", "role"].map(|name| counts.contains_key(name));
    assert_eq!(waited, [false, false], "{counts:?}");
    let marker = redis
        .master
        .text(&["EXISTS", "lockkeeper_replicated"])
        .await;
    assert_eq!(marker, "0");
}

async fn command_counts(redis: &RedisServer) -> BTreeMap<String, usize> {
    let stats = redis.info("commandstats").await;
    let lines = stats.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    });
    lines.collect()
}

#[tokio::test]
async fn a_policy_of_all_follows_the_replicas_that_are_connected() {
    let mut redis = Replicated::start(2).await;
    let settings = redis.settings().with("store.replica_acks", "all");
    let (_coordinator, mut client) = redis.coordinator(&settings).await;
    let tried = client.try_with(wanting("a", 0)).await.unwrap();
    assert_eq!(tried.grant.unwrap().replica_acks, 2);
    redis.replicas[1].stop();
    let refused = client.try_with(wanting("b", 0)).await.unwrap_err();
    assert!(refused.message().contains("1 of 2"), "{refused}");
    redis.replicas[1].kill();
    redis.until_online(1).await;
    let tried = client.try_with(wanting("b", 0)).await.unwrap();
    assert_eq!(tried.grant.unwrap().replica_acks, 1);
    redis.replicas[0].kill();
    redis.until_online(0).await;
    let refused = client.try_with(wanting("c", 0)).await.unwrap_err();
    assert!(
        refused.message().contains("0 of 1"),
        "at least one: {refused}"
    );
}

#[tokio::test]
async fn a_release_is_answered_whatever_the_replicas_say() {
    let redis = Replicated::start(1).await;
    let settings = redis.settings().with("store.replica_acks", "1");
    let (coordinator, mut client) = redis.coordinator(&settings).await;
    client.try_acquire("build", "x", secs(60)).await.unwrap();
    redis.replicas[0].stop();
    assert!(client.release("build", "x").await.unwrap().released);
    assert_eq!(redis.master.lease_left("build").await, None);
    coordinator
        .until_logged("0 of 1 replicas acknowledged")
        .await;
    redis.replicas[0].cont();
}

#[tokio::test]
async fn replicas_that_follow_somebody_else_do_not_count() {
    let redis = Replicated::start(1).await;
    let (_coordinator, mut client) = redis.coordinator(&redis.settings()).await;
    redis.replicas[0].command(&["REPLICAOF", "NO", "ONE"]).await;
    redis.until_online(0).await;
    let refused = client.try_with(wanting("build", 1)).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_REPLICATED");
    let port = redis.master.port().to_string();
    redis.replicas[0]
        .command(&["REPLICAOF", "127.0.0.1", &port])
        .await;
    redis.until_online(1).await;
    let tried = client.try_with(wanting("build", 1)).await.unwrap();
    assert_eq!(tried.grant.unwrap().replica_acks, 1);
}

#[tokio::test]
async fn replicas_of_another_server_than_that_of_the_grant_do_not_count() {
    let (first, second) = (RedisServer::start().await, Replicated::start(1).await);
    let proxy = TcpProxy::to(first.port()).await;
    let settings = settings_on(&proxy.url()).with("store.replica_ack_timeout", "400ms");
    let (_coordinator, mut client) = second.coordinator(&settings).await;
    // The connections for commands stay where they are, that for WAIT is yet to be opened.
    proxy.lead_to(second.master.port());
    let before = calls(&second.master, "wait").await;
    let refused = client.try_with(wanting("build", 1)).await;
    let refused = refused.unwrap_err();
    assert_eq!(reason(&refused), "NOT_REPLICATED");
    assert!(refused.message().contains("another server"), "{refused}");
    assert_eq!(calls(&second.master, "wait").await, before + 1);
    assert_eq!(first.lease_left("build").await, None);
}

#[tokio::test]
async fn replicas_are_counted_again_after_the_connection_of_a_wait_fell_silent() {
    let redis = Replicated::start(1).await;
    let proxy = TcpProxy::to(redis.master.port()).await;
    let settings = settings_on(&proxy.url()).with("store.replica_ack_timeout", "1s");
    let (_coordinator, client) = redis.coordinator(&settings).await;
    // The connections for commands go on, that for WAIT is yet to be opened.
    proxy.spare_open_connections();
    redis.replicas[0].stop();
    let mut other = client.clone();
    let waits = other.try_with(wanting("before", 1));
    let falls_silent = async {
        eventually("the replica is waited for", || async {
            let clients = redis.master.info("clients").await;
            clients.contains("blocked_clients:1")
        })
        .await;
        proxy.silence();
        redis.replicas[0].cont();
    };
    let (refused, ()) = tokio::join!(waits, falls_silent);
    assert_eq!(refusal(refused), "NOT_REPLICATED");
    eventually("replicas are counted again", || {
        let mut client = client.clone();
        async move { client.try_with(wanting("after", 1)).await.is_ok() }
    })
    .await;
}

#[tokio::test]
async fn a_full_redis_still_counts_its_replicas() {
    let redis = Replicated::start(1).await;
    let settings = redis.settings().with("store.replica_acks", "1");
    let (_coordinator, mut client) = redis.coordinator(&settings).await;
    client.try_acquire("build", "x", secs(60)).await.unwrap();
    redis
        .master
        .command(&["CONFIG", "SET", "maxmemory", "1"])
        .await;
    let renewed = client.renew("build", "x", secs(60)).await.unwrap();
    assert_eq!(renewed.replica_acks, 1);
    assert!(client.release("build", "x").await.unwrap().released);
}

#[tokio::test]
async fn the_command_line_asks_for_replicas_and_shows_them() {
    let redis = Replicated::start(1).await;
    let (coordinator, _client) = redis.coordinator(&redis.settings()).await;
    let run = async |arguments: &[&str]| {
        let output = lockkeeper(&coordinator, arguments).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    for words in [
        &["acquire", "a"][..],
        &["try-acquire", "b"],
        &["acquire-all", "c", "d"],
        &["try-acquire-all", "e", "f"],
    ] {
        let wanted = ["--min-replica-acks", "1", "--output", "json"];
        let (code, json, _) = run(&[words, &wanted].concat()).await;
        assert_eq!(code, Some(0), "{words:?}");
        assert!(json.contains("\"replicaAcks\":1"), "{json}");
        let (code, _, message) =
            run(&[&words[..1], &["g", "--min-replica-acks", "2"]].concat()).await;
        assert_eq!(code, Some(69), "{words:?} {message}");
        assert!(message.contains("NOT_REPLICATED"), "{message}");
    }
    let (code, out, _) = run(&["run", "h", "--min-replica-acks", "1", "--", "echo", "ran"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "ran\n"));
    let impossible = [
        "run",
        "h",
        "--no-wait",
        "--min-replica-acks",
        "2",
        "--",
        "echo",
        "ran",
    ];
    let (code, out, _) = run(&impossible).await;
    assert_eq!((code, out.as_str()), (Some(69), ""));
}

#[tokio::test]
async fn replicas_are_counted_on_the_master_that_was_elected() {
    let mut store = Sentinels::start().await;
    let settings = Settings::on(&store.url())
        .with("session.lease", "20s")
        .with("store.replica_acks", "1");
    let coordinator = Coordinator::start(&settings).await;
    coordinator.until_connected(1).await;
    let mut client = coordinator.client().await;
    let tried = client.try_acquire("before", "x", secs(60)).await.unwrap();
    assert!(tried.grant.unwrap().replica_acks >= 1);
    let before = store.master().await.expect("there is a master");
    store.servers[before].kill();
    store.until_another_than(before).await;
    eventually("the replica of the new master is counted", || {
        let mut client = client.clone();
        async move {
            let tried = client.try_acquire("after", "x", secs(60)).await;
            tried.is_ok_and(|tried| tried.grant.is_some_and(|grant| grant.replica_acks == 1))
        }
    })
    .await;
}
