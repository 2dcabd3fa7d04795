//! The host on a real cluster: whom calls go to, whose messages are heard, and what is said when it
//! cannot be used.

use lockkeeper_store::{
    host::{
        Acks, Call, Connected, HostError, Replicas, Replication, ScanCursor, Script, Value, Wake,
        words,
    },
    script::keys,
};
use tokio::sync::mpsc;

use crate::prelude::*;
use crate::{
    cluster::{Cluster, MASTERS},
    hosts::{call, eval, host_with, message, next_wake},
    refusing_port::RefusingPort,
    steps::asked_three_times,
};

static SET: Script = Script::new("set", "return redis.call('set', KEYS[1], ARGV[1])");
static NEXT: Script = Script::new("next", "return redis.call('incr', KEYS[1])");
static SAY_BOTH: Script = Script::new(
    "say-both",
    "redis.call('spublish', KEYS[1], ARGV[1]) return redis.call('publish', KEYS[1], ARGV[1])",
);

fn host_at(url: &str) -> Connected {
    host_with(url, |it| it.call_timeout = secs(2))
}

/// The next message, and that it has come once.
async fn expect_once(wakes: &mut mpsc::Receiver<Wake>, channel: &str, payload: &str) {
    assert_eq!(next_wake(wakes).await, message(channel, payload));
}

/// Until a gap is told, however many messages come before it.
async fn until_gap(wakes: &mut mpsc::Receiver<Wake>) {
    while next_wake(wakes).await != Wake::Gap {}
}

async fn error_at(url: &str, key: &str) -> String {
    let (host, _wakes) = host_at(url);
    match eval(&host, &SET, key, "1").await {
        Err(HostError::Unavailable(why)) => why,
        other => panic!("expected unavailable, got {other:?}"),
    }
}

#[tokio::test]
async fn calls_and_messages_find_the_master_of_their_slot() {
    let store = Cluster::start().await;
    // One seed is enough, also if it is a replica.
    let (host, mut wakes) = host_at(&store.url_of(&[MASTERS]));
    let names = store.name_on_each_master("name").await;
    for name in &names {
        assert!(eval(&host, &SET, name, name).await.is_ok());
        assert_eq!(store.text_on(name, &["GET", name]).await, *name);
        let channel = keys::channel(name);
        host.subscribe(&channel).await.unwrap();
        for (command, payload) in [("PUBLISH", "plain"), ("SPUBLISH", "sharded")] {
            let heard = store.text_on(name, &[command, &channel, payload]).await;
            assert_eq!(heard, "1", "{command}");
            expect_once(&mut wakes, &channel, payload).await;
        }
        for payload in ["1", "1", "2"] {
            eval(&host, &SAY_BOTH, &channel, payload).await.unwrap();
            expect_once(&mut wakes, &channel, payload).await;
        }
        host.unsubscribe(&channel);
        eventually("nobody listens", || async {
            let plain = store.text_on(name, &["PUBLISH", &channel, "x"]).await;
            let sharded = store.text_on(name, &["SPUBLISH", &channel, "x"]).await;
            plain == "0" && sharded == "0"
        })
        .await;
        while wakes.try_recv().is_ok() {}
    }
    let partitions = names.each_ref().map(|name| host.partition(name.as_bytes()));
    assert_ne!(partitions[0], partitions[1]);
    let no_keys = Call {
        script: &SAY_BOTH,
        keys: words![],
        args: words![],
    };
    assert!(matches!(
        host.eval(no_keys).await,
        Err(HostError::Rejected { .. })
    ));
}

#[tokio::test]
async fn connections_that_are_killed_are_replaced() {
    let store = Cluster::start().await;
    let (host, mut wakes) = host_at(&store.url());
    let names = store.name_on_each_master("name").await;
    for name in &names {
        host.subscribe(&keys::channel(name)).await.unwrap();
    }
    for kind in ["normal", "pubsub"] {
        let before = join_all(names.iter().map(|name| eval(&host, &NEXT, name, ""))).await;
        assert!(before.iter().all(Result::is_ok), "{before:?}");
        for number in store.running() {
            // The test's own connection is of the first kind, and spared.
            let kill = ["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"];
            store.node(number).command(&kill).await;
        }
        if kind == "pubsub" {
            until_gap(&mut wakes).await;
        }
        for name in &names {
            eventually("calls are answered", || async {
                eval(&host, &NEXT, name, "").await.is_ok()
            })
            .await;
        }
    }
    for name in &names {
        let channel = keys::channel(name);
        for command in ["PUBLISH", "SPUBLISH"] {
            eventually("it is heard again", || async {
                store.text_on(name, &[command, &channel, command]).await == "1"
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_slot_that_moves_takes_its_calls_and_channels_along() {
    let store = Cluster::start().await;
    let (host, mut wakes) = host_at(&store.url());
    let [name, _, other] = store.name_on_each_master("name").await;
    let (channel, far) = (keys::channel(&name), keys::channel(&other));
    host.subscribe(&channel).await.unwrap();
    host.subscribe(&far).await.unwrap();
    for number in 1..=3 {
        assert_eq!(eval(&host, &NEXT, &name, "").await, Ok(Value::Int(number)));
    }
    let slot = store.slot(&name).await;
    let from = store.begin_migration(slot, 1).await;
    // One key, so it is asked for where it is, before and after it has moved.
    assert_eq!(eval(&host, &NEXT, &name, "").await, Ok(Value::Int(4)));
    store.move_keys(slot, from, 1).await;
    assert_eq!(eval(&host, &NEXT, &name, "").await, Ok(Value::Int(5)));
    store.end_migration(slot, from, 1).await;
    until_gap(&mut wakes).await;
    for (name, channel) in [(&name, &channel), (&other, &far)] {
        for command in ["PUBLISH", "SPUBLISH"] {
            eventually("it is heard", || async {
                store.text_on(name, &[command, channel, command]).await == "1"
            })
            .await;
        }
    }
}

#[tokio::test]
async fn what_cannot_be_used_is_told_clearly() {
    let port = RefusingPort::take();
    let nobody = format!("redis+cluster://127.0.0.1:{}", port.number);
    let why = error_at(&nobody, "a").await;
    assert!(why.contains("refused"), "{why}");

    let single = RedisServer::start().await;
    let url = format!("redis+cluster://127.0.0.1:{}", single.port());
    let why = error_at(&url, "a").await;
    assert!(why.contains("is not part of a cluster"), "{why}");
}

#[tokio::test]
async fn a_failover_is_seen_though_all_nodes_of_the_url_are_gone() {
    let mut store = Cluster::start().await;
    let (host, _wakes) = host_at(&store.url_of(&[0]));
    let [name, ..] = store.name_on_each_master("name").await;
    assert!(eval(&host, &SET, &name, "1").await.is_ok());
    let slot = store.slot(&name).await;
    store.kill(0);
    store.until_another_serves(slot, 0).await;
    eventually("calls go to the new master", || async {
        eval(&host, &SET, &name, "2").await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn replicas_are_counted_on_the_master_where_the_script_ran() {
    let store = Cluster::start().await;
    let (host, _wakes) = host_at(&store.url());
    for name in store.name_on_each_master("name").await {
        let call = call(&SET, &name, "1");
        let replicas = Replicas {
            at_least: 1,
            all: false,
        };
        let replication = Replication {
            replicas,
            wanted_if: |_| true,
        };
        let (_, acks) = host.eval_replicated(call, replication).await.unwrap();
        let expected = Acks {
            acknowledged: 1,
            required: 1,
            problem: None,
        };
        assert_eq!(acks, Some(expected), "{name}");
    }
}

#[tokio::test]
async fn a_node_that_goes_on_saying_nothing_is_logged_once() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis+cluster://{}", silent.local_addr().unwrap());
    let coordinator = Coordinator::start(&Settings::on(&url)).await;
    asked_three_times(&silent).await;
    let log = coordinator.log();
    assert_eq!(log.matches("cannot be queried").count(), 1, "{log}");
}

#[tokio::test]
async fn slots_that_nobody_serves_do_not_concern_the_others() {
    let store = Cluster::start().await;
    let [gone, here, _] = store.name_on_each_master("name").await;
    let slot = store.slot(&gone).await;
    for number in store.running() {
        let delete = ["CLUSTER", "DELSLOTS", &slot.to_string()];
        // A replica refuses, and learns it from its master.
        let _ = store.node(number).try_command(&delete).await;
    }
    let (host, _wakes) = host_at(&store.url());
    let why = match eval(&host, &SET, &gone, "1").await {
        Err(HostError::Unavailable(why)) => why,
        other => panic!("expected unavailable, got {other:?}"),
    };
    let expected = format!("slot {slot} is not served");
    assert!(
        why.contains(&expected) || why.contains("CLUSTERDOWN"),
        "{why}"
    );
    assert!(eval(&host, &SET, &here, "1").await.is_ok());
    let add = ["CLUSTER", "ADDSLOTS", &slot.to_string()];
    store.node(0).command(&add).await;
    eventually("it is served again", || async {
        eval(&host, &SET, &gone, "1").await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn two_addresses_of_one_cluster_are_known_to_be_one() {
    let cluster = Cluster::start_without_replicas().await;
    let (one, _wakes) = host_at(&cluster.url_of(&[0]));
    let (other, _wakes) = host_at(&cluster.url_of(&[1, 2]));
    eventually("both say which cluster they are", || async {
        one.identity().is_some() && one.identity() == other.identity()
    })
    .await;
}

/// As after slots have moved in the middle of a walk.
#[tokio::test]
async fn a_walk_begins_anew_where_another_master_has_the_beginning() {
    let store = Cluster::start_without_replicas().await;
    let (host, _wakes) = host_at(&store.url());
    let [_, middle, last] = store.name_on_each_master("name").await;
    for number in 0..20 {
        let key = format!("{{{last}}}{number}");
        eval(&host, &SET, &key, "1").await.unwrap();
    }
    // No master begins there, so the next one is walked through from its beginning.
    let mut at = Some(ScanCursor {
        part: u32::from(host.partition(middle.as_bytes())),
        position: 7,
    });
    let mut found = 0;
    while let Some(from) = at {
        let scanned = host.scan(from, last.as_bytes(), 1000).await.unwrap();
        found += scanned.keys.len();
        at = scanned.next;
    }
    assert_eq!(found, 20);
}
