//! Read locks with a crowd of readers.

use std::collections::BTreeMap;

use deadpool_redis::redis::Value;

use crate::prelude::*;

const READERS: usize = 10_000;
const FEW: usize = 10;

/// How often a release is measured among so many, for a mean that says something.
const ROUNDS: usize = 200;

#[tokio::test]
async fn a_release_among_10_000_readers_costs_the_store_what_it_does_among_10() {
    let redis = RedisServer::start().await;
    // Long enough that no renewal comes in between.
    let settings = Settings::on(&redis.url()).with("session.lease", "10m");
    let coordinator = Coordinator::start(&settings).await;
    let mut client = coordinator.client().await;
    let mut session = client.open().await;

    read(&mut session, 0..FEW).await;
    let among_few = cost_of_release(&redis, &mut session, FEW).await;
    read(&mut session, FEW..READERS).await;
    let among_many = cost_of_release(&redis, &mut session, READERS).await;
    assert_eq!(among_few, among_many, "commands that a release runs");

    let seen = client.describe("data").await;
    assert_eq!(seen.holder_count, u32::try_from(READERS).unwrap());
    assert_eq!(seen.mode, i32::from(LockMode::Read));
    let write = || try_request("data", "writer").in_mode(LockMode::Write);
    let refused = client.try_with(write()).await.unwrap();
    assert!(!refused.acquired);
    for reader in 1..READERS {
        session.send(release_of(reader));
    }
    for _ in 1..READERS {
        let Some(pb::SessionResponse {
            response: Some(Response::Released(released)),
            ..
        }) = session.next().await.unwrap()
        else {
            panic!("expected released");
        };
        assert!(released.released);
    }
    let refused = client.try_with(write()).await.unwrap();
    assert!(!refused.acquired, "one still reads");
    let op_id = session.send(release_of(0));
    assert!(matches!(session.answer(op_id).await, Response::Released(_)));
    let granted = client.try_with(write()).await.unwrap();
    assert!(granted.acquired);
}

async fn read(session: &mut Session, readers: std::ops::Range<usize>) {
    let count = readers.len();
    for reader in readers {
        session.send(acquire_of(reader));
    }
    for _ in 0..count {
        let answer = session.next().await.unwrap().unwrap().response;
        assert!(matches!(answer, Some(Response::Granted(_))), "{answer:?}");
    }
}

/// The commands that one release runs, and how often each; the mean time of the script is shown.
async fn cost_of_release(
    redis: &RedisServer,
    session: &mut Session,
    readers: usize,
) -> BTreeMap<String, u64> {
    redis.command(&["CONFIG", "RESETSTAT"]).await;
    let op_id = session.send(release_of(1));
    assert!(matches!(session.answer(op_id).await, Response::Released(_)));
    let mut commands = command_stats(redis).await;
    let (_, first) = commands.remove("evalsha").unwrap();
    // A coordinator that has just started may still be loading its scripts, and the rights of its
    // user are checked now and then.
    for other in ["script|load", "multi", "discard"] {
        commands.remove(other);
    }
    let commands = commands.into_iter().map(|(name, (calls, _))| (name, calls));
    let commands: BTreeMap<_, _> = commands.collect();
    let mut micros = first;
    for _ in 1..ROUNDS {
        let op_id = session.send(acquire_of(1));
        assert!(matches!(session.answer(op_id).await, Response::Granted(_)));
        redis.command(&["CONFIG", "RESETSTAT"]).await;
        let op_id = session.send(release_of(1));
        assert!(matches!(session.answer(op_id).await, Response::Released(_)));
        micros += command_stats(redis).await["evalsha"].1;
    }
    let mean = Duration::from_micros(micros) / u32::try_from(ROUNDS).unwrap();
    measured(&format!("a release script among {readers} readers"), mean);
    let op_id = session.send(acquire_of(1));
    assert!(matches!(session.answer(op_id).await, Response::Granted(_)));
    commands
}

/// Calls and microseconds of each command since the statistics were reset, those of the test itself
/// left out.
async fn command_stats(redis: &RedisServer) -> BTreeMap<String, (u64, u64)> {
    let info = match redis.command(&["INFO", "commandstats"]).await {
        Value::VerbatimString { text, .. } => text,
        Value::BulkString(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    };
    let lines = info
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_"));
    let stats = lines.map(|line| {
        let (name, numbers) = line.split_once(':').unwrap();
        let number = |which: &str| {
            let mut fields = numbers.split(',').filter_map(|field| field.split_once('='));
            let (_, value) = fields.find(|(name, _)| *name == which).unwrap();
            value.parse().unwrap()
        };
        (name.to_owned(), (number("calls"), number("usec")))
    });
    stats
        .filter(|(name, _)| {
            // What the test asks, and what connections say when they are opened and to see whether
            // they live.
            let other = ["config|", "client|", "hello", "info", "ping"];
            !other.iter().any(|other| name.starts_with(other))
        })
        .collect()
}

fn acquire_of(reader: usize) -> Request {
    Request::Acquire(
        pb::AcquireRequest::named("data")
            .in_mode(LockMode::Read)
            .by(reader.to_string()),
    )
}

fn release_of(reader: usize) -> Request {
    Request::Release(
        pb::ReleaseRequest::named("data")
            .in_mode(LockMode::Read)
            .by(reader.to_string()),
    )
}
