//! What operations cost, in counts that do not depend on the machine: the commands that Redis runs
//! for them, and the allocations of everything that has a part in them. They are compared with
//! figures that stand here, so whoever makes an operation dearer has to say so.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lockkeeper_testkit::prelude::*;
use lockkeeper_testkit::redis_server;

mod service;
mod words;

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use allocation_counter::measure;
use futures::future::try_join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use deadpool_redis::redis::Value;
use lockkeeper_api::pb::{self, session_request::Request, session_response::Response};
use lockkeeper_store::host::{
    Commands,
    redis::{RedisConfig, connect},
};
use redis_server::{RedisServer, eventually};
use service::{Service, Session};

/// Operations of one kind in a row, after as many that are not counted.
const OPERATIONS: u32 = 200;

/// Counts may exceed the committed figures by this part: buffers that are shared grow when they
/// must.
const MARGIN: f64 = 0.05;

/// Allocations of a pair of a try and a release, one after the other: client, wire, coordinator and
/// the client of Redis, which share a thread here.
const PAIR_BY_RPC: u32 = 159;
const PAIR_BY_FRAMES: u32 = 35;

/// Grants that the watchdog renews, and how many at least with each script.
const RENEWED: u32 = 2000;
const RENEWED_BY_A_SCRIPT: u32 = 50;
const RENEWED_LEASE: Duration = Duration::from_secs(6);

/// Grants whose renewals are due together.
const FEW: u32 = 1000;
const MANY: u32 = 8000;

/// What makes its token is counted by itself.
const TAKES_FREE: &[(&str, u32)] = &[("evalsha", 1), ("hset", 1), ("pexpire", 1), ("pttl", 1)];
const IS_REFUSED: &[(&str, u32)] = &[
    ("evalsha", 1),
    ("exists", 1),
    ("get", 1),
    ("hmget", 1),
    ("pttl", 1),
];
const GIVES_BACK: &[(&str, u32)] = &[
    ("del", 1),
    ("evalsha", 1),
    ("get", 1),
    ("hget", 1),
    ("hlen", 1),
    ("publish", 1),
];

#[tokio::test]
async fn commands_of_redis() {
    let redis = RedisServer::start().await;
    let service = Service::start(&redis.url()).await;
    let (mut ours, mut other) = (service.session().await, service.session().await);
    for name in 0..OPERATIONS {
        // Scripts are loaded, counters made.
        ours.pair(&name.to_string()).await;
    }
    let took = counted(&redis, async {
        for name in 0..OPERATIONS {
            let name = name.to_string();
            assert!(ours.try_acquire(&name).await.acquired);
        }
    });
    let (mut took, mut made) = (took.await, [0; 4]);
    for (command, made) in ["incrby", "get", "set", "time"].iter().zip(&mut made) {
        *made = took.remove(*command).unwrap_or_default();
    }
    assert_eq!(took, each(TAKES_FREE), "a try that takes a free lock");
    // A step of the counter where it was seen within a second, which is the machine's business.
    let [steps, looks @ ..] = made;
    assert_eq!(looks, [OPERATIONS - steps; 3], "tokens: {made:?}");
    let refused = counted(&redis, async {
        for name in 0..OPERATIONS {
            assert!(!other.try_acquire(&name.to_string()).await.acquired);
        }
    });
    assert_eq!(refused.await, each(IS_REFUSED), "a try that is refused");
    let released = counted(&redis, async {
        for name in 0..OPERATIONS {
            assert!(ours.release(&name.to_string()).await.released);
        }
    });
    assert_eq!(released.await, each(GIVES_BACK), "a release");
}

/// A name at a time, so that its counter was seen a moment ago.
#[tokio::test]
async fn commands_of_redis_without_scripts() {
    let redis = RedisServer::start().await;
    let service = Service::start_with(&redis.url(), true).await;
    let mut session = service.session().await;
    session.pair("hot").await;
    let counts = counted(&redis, async {
        for _ in 0..OPERATIONS {
            session.pair("hot").await;
        }
    });
    let mut counts = counts.await;
    // A script once in a second, or where the machine was held up for as long.
    let scripts = counts.remove("evalsha").unwrap_or_default();
    assert!(scripts < OPERATIONS / 2, "{counts:?}");
    let plain = OPERATIONS - scripts;
    for (command, expected) in [
        ("restore", plain),
        ("hexists", plain),
        ("incrby", plain),
        ("hdel", OPERATIONS),
        ("publish", OPERATIONS),
        ("exec", OPERATIONS),
    ] {
        assert_eq!(counts.remove(command), Some(expected), "{command}");
    }
    // Also what the rights of its user are tried in.
    counts.retain(|command, _| !["multi", "discard"].contains(&command.as_str()));
    let of_scripts: u32 = counts.values().sum();
    assert!(of_scripts <= 6 * scripts, "{counts:?}");
}

/// As many as a transaction takes.
#[tokio::test]
async fn releases_at_the_same_time_share_a_transaction() {
    let redis = RedisServer::start().await;
    let config = RedisConfig {
        url: redis.url(),
        ..RedisConfig::default()
    };
    let (host, _wakes) = connect(&config).unwrap();
    host.first_attempt().await;
    let keys: Vec<_> = (0..64).map(|key| key.to_string()).collect();
    // Every other lock is held.
    for key in keys.iter().step_by(2) {
        redis.command(&["HSET", key, "field", "1"]).await;
    }
    let remove = |key| Commands::RemoveAndPublish {
        key: Cow::Borrowed(key),
        field: Cow::Borrowed(b"field"),
        channel: Cow::Borrowed(b"channel"),
        message: "0",
    };
    let releases: Vec<_> = keys.iter().map(|key| remove(key.as_bytes())).collect();
    let counts = counted(&redis, async {
        let all = releases.iter().map(|it| host.run(it, Instant::now()));
        let answers = try_join_all(all).await.unwrap();
        assert_eq!(answers, [[1, 0], [0, 0]].repeat(32));
    });
    let counts = counts.await;
    let expected = [("exec", 1), ("hdel", 64), ("publish", 64)];
    for (command, expected) in expected {
        assert_eq!(counts.get(command), Some(&expected), "{command}");
    }
}

/// However many wait, a hand-over is one call, or a release that others hear of and one try.
#[tokio::test]
async fn commands_of_redis_for_a_hand_over() {
    let redis = RedisServer::start().await;
    let service = Service::start(&redis.url()).await;
    let mut session = service.session().await;
    // One holds, one gets it before it is counted.
    let waiters = OPERATIONS + 1;
    for waiter in 0..=waiters {
        session.send(u64::from(waiter) + 1, acquire("hot", waiter));
    }
    let (mut holder, mut waiting) = (None, 0);
    while holder.is_none() || waiting < waiters {
        match session.next().await.1 {
            Response::Granted(grant) => holder = Some(grant.owner),
            Response::Waiting(_) => waiting += 1,
            other => panic!("{other:?}"),
        }
    }
    // Until the subscription stands, hints of it and of releases make for a try more.
    eventually("it is subscribed", || async {
        let channels = redis.command(&["PUBSUB", "CHANNELS", "*{hot}*"]).await;
        matches!(channels, Value::Array(channels) if !channels.is_empty())
    })
    .await;
    session.send(1_000_000, release("hot", &holder.take().unwrap()));
    holder = Some(session.granted().await.owner);
    let handed_over = counted(&redis, async {
        for _ in 0..OPERATIONS {
            session.send(1_000_000, release("hot", &holder.take().unwrap()));
            holder = Some(session.granted().await.owner);
        }
    });
    let counts = handed_over.await;
    let scripts = counts.get("evalsha").copied().unwrap_or_default();
    // Two where they do not follow each other within milliseconds, and one more if the coordinator
    // hears of its subscription only now.
    let most = 2 * OPERATIONS + 1;
    assert!((OPERATIONS..=most).contains(&scripts), "{counts:?}");
}

/// Grants that are renewed at about the same time share a script.
#[tokio::test]
async fn commands_of_redis_for_renewals() {
    let redis = RedisServer::start().await;
    let service = Service::start(&redis.url()).await;
    let mut session = service.session_with_lease(RENEWED_LEASE).await;
    for name in 0..RENEWED {
        session.send(u64::from(name) + 1, acquire(&name.to_string(), 0));
    }
    for _ in 0..RENEWED {
        session.granted().await;
    }
    let counts = counted(&redis, async {
        eventually("all are renewed", || async {
            calls(&redis).await.get("pexpire") >= Some(&RENEWED)
        })
        .await;
    })
    .await;
    let (renewed, scripts) = (counts["pexpire"], counts["evalsha"]);
    assert!(
        scripts * RENEWED_BY_A_SCRIPT <= renewed,
        "{scripts} scripts for {renewed} renewals"
    );
}

#[test]
fn allocations() {
    for (what, figure, allocations) in [
        ("RPCs", PAIR_BY_RPC, by_rpc()),
        ("frames", PAIR_BY_FRAMES, by_frames()),
    ] {
        let each = f64::from(allocations) / f64::from(OPERATIONS);
        let most = f64::from(figure) * (1.0 + MARGIN);
        let least = f64::from(figure) * (1.0 - 2.0 * MARGIN);
        assert!(
            (least..=most).contains(&each),
            "a pair by {what} makes {each:.1} allocations; {figure} are written down: if that is \
             meant, write the new figure down"
        );
    }
}

/// A coordinator that was held up has all of its renewals to make at once, and must not be held up
/// by that again.
#[test]
fn bytes_of_a_renewal_do_not_depend_on_how_many_are_due() {
    let (few, many) = (bytes_of_renewals(FEW), bytes_of_renewals(MANY));
    let each = |bytes: u64, grants: u32| bytes / u64::from(grants);
    let (few, many) = (each(few, FEW), each(many, MANY));
    assert!(
        many < few + few / 2,
        "{few} bytes each for {FEW} renewals, and {many} each for {MANY}"
    );
}

/// What is allocated while so many grants are renewed that are due together.
fn bytes_of_renewals(grants: u32) -> u64 {
    let runtime = runtime();
    let (redis, _session) = runtime.block_on(async {
        let redis = RedisServer::start().await;
        let mut session = Service::start(&redis.url()).await.session().await;
        for names in 0..grants / OPERATIONS {
            for name in 0..OPERATIONS {
                let name = names * OPERATIONS + name;
                session.send(u64::from(name) + 1, acquire(&name.to_string(), 0));
            }
            for _ in 0..OPERATIONS {
                session.granted().await;
            }
        }
        redis.command(&["CONFIG", "RESETSTAT"]).await;
        (redis, session)
    });
    let renewals = || {
        runtime.block_on(async {
            // Later than a third of the default lease after the last grant, so that all are due.
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(12)).await;
            tokio::time::resume();
            eventually("all are renewed", || async {
                calls(&redis).await.get("pexpire") >= Some(&grants)
            })
            .await;
        });
    };
    measure(renewals).bytes_total
}

fn by_rpc() -> u32 {
    let runtime = runtime();
    let (_redis, mut client) = runtime.block_on(async {
        let redis = RedisServer::start().await;
        let service = Service::start(&redis.url()).await;
        let client = service.client();
        (redis, client)
    });
    let mut pairs = || {
        runtime.block_on(async {
            for _ in 0..OPERATIONS {
                let request = pb::TryAcquireRequest::named("a").by("o");
                let tried = client.try_acquire(request).await.unwrap().into_inner();
                assert!(tried.acquired);
                let request = pb::ReleaseRequest::named("a").by("o");
                client.release(request).await.unwrap();
            }
        });
    };
    pairs();
    u32::try_from(measure(pairs).count_total).unwrap()
}

fn by_frames() -> u32 {
    let runtime = runtime();
    let (_redis, mut session) = runtime.block_on(async {
        let redis = RedisServer::start().await;
        let session = Service::start(&redis.url()).await.session().await;
        (redis, session)
    });
    let mut pairs = || {
        runtime.block_on(async {
            for _ in 0..OPERATIONS {
                session.pair("a").await;
            }
        });
    };
    pairs();
    u32::try_from(measure(pairs).count_total).unwrap()
}

/// One thread for all, because allocations are counted by thread.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn acquire(name: &str, owner: u32) -> Request {
    Request::Acquire(pb::AcquireRequest::named(name).by(owner.to_string()))
}

fn release(name: &str, owner: &str) -> Request {
    Request::Release(pb::ReleaseRequest::named(name).by(owner))
}

/// What Redis has run for something, but for what is asked of it at other times too: by the test,
/// and for signs of life.
async fn counted(redis: &RedisServer, done: impl Future<Output = ()>) -> BTreeMap<String, u32> {
    redis.command(&["CONFIG", "RESETSTAT"]).await;
    done.await;
    calls(redis)
        .await
        .into_iter()
        .filter(|(name, _): &(String, u32)| {
            let other = ["config|", "client|", "info", "ping", "hello", "role"];
            !other.iter().any(|other| name.starts_with(other))
        })
        .collect()
}

/// How often each command was run.
async fn calls(redis: &RedisServer) -> BTreeMap<String, u32> {
    let stats = redis.info("commandstats").await;
    let counts = stats.lines().filter_map(|line| {
        let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let calls = fields.strip_prefix("calls=")?.split(',').next()?;
        Some((name.to_owned(), calls.parse().ok()?))
    });
    counts.collect()
}

fn each(counts: &[(&str, u32)]) -> BTreeMap<String, u32> {
    let all = counts.iter();
    all.map(|(name, count)| ((*name).to_owned(), count * OPERATIONS))
        .collect()
}

impl Session {
    async fn pair(&mut self, name: &str) {
        assert!(self.try_acquire(name).await.acquired);
        assert!(self.release(name).await.released);
    }
}
