//! Lines of the mission that only a real Redis can show.

use std::collections::BTreeMap;

use deadpool_redis::redis::Value;

use crate::prelude::*;
use crate::{
    redis_server::Monitor,
    redisson_client::channel,
    steps::{sessionless_wait, wait_for},
};

/// Leases so long that no renewal falls into the test.
async fn quiet_coordinator() -> (RedisServer, Coordinator, Client) {
    let redis = RedisServer::start().await;
    let settings = settings_on(&redis.url()).with("session.lease", "60s");
    let coordinator = Coordinator::start(&settings).await;
    let mut client = coordinator.client().await;
    warm_up(&redis, &mut client).await;
    (redis, coordinator, client)
}

/// Everything that happens once has happened: connections, the scripts' texts, the look at the
/// settings.
async fn warm_up(redis: &RedisServer, client: &mut Client) {
    let mut session = client.open().await;
    session.acquire("warm-up").await;
    let (waiting, op_id) = wait_for(client, "warm-up").await;
    let granted = timed(async move {
        let mut waiting = waiting;
        waiting.expect_granted(op_id).await;
        waiting.close().await.unwrap();
    });
    session.close().await.unwrap();
    granted.await.unwrap();
    eventually("the settings were looked at", || async {
        let stats = redis.text(&["INFO", "commandstats"]).await;
        stats.contains("cmdstat_config")
    })
    .await;
    expect_no_trace(redis).await;
}

/// The commands that clients sent, without those that scripts ran and without the liveness checks
/// of the subscriptions' connection.
async fn commands(monitor: &Monitor, redis: &RedisServer) -> Vec<Vec<String>> {
    let lines = monitor.lines(redis).await;
    let sent = lines.iter().filter(|line| !line.contains(" lua]"));
    let words = sent.map(|line| {
        let quoted = line.split_once("] ").unwrap().1;
        let words = quoted
            .split("\" \"")
            .map(|word| word.trim_matches('"').to_owned());
        words.collect::<Vec<_>>()
    });
    words.filter(|words| words[0] != "PING").collect()
}

/// The names of commands, and how often each came.
fn counts(commands: &[Vec<String>]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for command in commands {
        *counts.entry(command[0].as_str()).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn mission_30_an_acquire_and_a_release_are_two_scripts_and_nothing_else() {
    let (redis, _coordinator, mut client) = quiet_coordinator().await;
    let mut session = client.open().await;
    let monitor = redis.monitor().await;
    session.acquire("build").await;
    assert!(session.release("build").await.released);
    let sent = commands(&monitor, &redis).await;
    assert_eq!(counts(&sent), BTreeMap::from([("EVALSHA", 2)]), "{sent:?}");

    let monitor = redis.monitor().await;
    client.try_acquire("build", "a", secs(60)).await.unwrap();
    assert!(!client.gets_for("build", "b", secs(60)).await);
    client.release("build", "a").await.unwrap();
    let sent = commands(&monitor, &redis).await;
    assert_eq!(counts(&sent), BTreeMap::from([("EVALSHA", 3)]), "{sent:?}");
}

#[tokio::test]
async fn mission_30_one_subscription_however_many_wait_and_none_when_nobody_does() {
    let (redis, coordinator, mut client) = quiet_coordinator().await;
    let mut other = coordinator.client().await;
    let mut session = client.open().await;
    session.acquire("build").await;
    let monitor = redis.monitor().await;
    let waits = [
        wait_for(&mut client, "build").await,
        wait_for(&mut client, "build").await,
        wait_for(&mut other, "build").await,
    ];
    until_waiting(&client, "build", 3).await;
    drop(waits);
    until_waiting(&client, "build", 0).await;
    until_nobody_listens(&redis, "build").await;
    let sent = commands(&monitor, &redis).await;
    let about_channel = |name: &str| {
        let channel = channel("build");
        let is_it = |words: &&Vec<String>| words[0] == name && words[1..] == [channel.clone()];
        sent.iter().filter(is_it).count()
    };
    assert_eq!(
        (about_channel("SUBSCRIBE"), about_channel("UNSUBSCRIBE")),
        (1, 1),
        "{sent:?}"
    );
}

async fn until_nobody_listens(redis: &RedisServer, name: &str) {
    let channel = channel(name);
    eventually("nobody listens", || async {
        let listed = redis.command(&["PUBSUB", "CHANNELS", &channel]).await;
        listed == Value::Array(Vec::new())
    })
    .await;
}

/// Whether a command is the script that frees the lock and publishes that.
fn publishes(words: &[String]) -> bool {
    let channel = "redisson_lock__channel:{build}";
    words[0] == "EVALSHA" && words.iter().any(|word| word == channel)
}

#[tokio::test]
async fn mission_30_a_release_with_a_hundred_waiters_is_one_hand_over() {
    const WAITERS: u32 = 100;
    let (redis, coordinator, mut client) = quiet_coordinator().await;
    let mut session = client.open().await;
    session.acquire("build").await;
    let mut waits = Vec::new();
    for owner in 0..WAITERS {
        let wait = sessionless_wait("build", &format!("w{owner}"), secs(60));
        let mut wait = coordinator.client().await.acquire(wait).await.unwrap();
        wait.expect_waiting().await;
        waits.push(wait);
    }
    until_waiting(&client, "build", WAITERS).await;
    // Waits that are older than a poll interval must not make up for it when their turn comes.
    tokio::time::sleep(millis(1500)).await;

    let first = timed(async move {
        let grant = waits[0].expect_granted().await;
        (grant, waits)
    });
    let monitor = redis.monitor().await;
    let holder = format!("{}:0", session.id());
    session.send_release("build", "");
    let (_, (grant, _waits)) = first.await.unwrap();
    assert_eq!(grant.owner, "w0");
    // Whatever the hand-over sets off has happened; the next poll has not.
    tokio::time::sleep(millis(300)).await;
    let sent = commands(&monitor, &redis).await;
    // One script of both, or the release and the attempt of the head, which may have polled just
    // before.
    let next = "w0".to_owned();
    let is_of_both = |words: &[String]| words.contains(&holder) && words.contains(&next);
    let begun = sent
        .iter()
        .position(|words| publishes(words) || is_of_both(words));
    let sent = &sent[begun.unwrap()..];
    let scripts = if is_of_both(&sent[0]) { 1 } else { 2 };
    assert_eq!(
        counts(sent),
        BTreeMap::from([("EVALSHA", scripts)]),
        "{sent:?}"
    );
}

#[tokio::test]
async fn mission_30_waiters_of_a_session_are_handed_the_lock_by_one_script_and_no_message() {
    // So many that one of them is the first after the turn of others, which is handed the lock so
    // however slow this machine is.
    const WAITERS: usize = 40;
    let (redis, _coordinator, mut client) = quiet_coordinator().await;
    let mut session = client.open().await;
    let owners: Vec<_> = (0..=WAITERS).map(|number| format!("w{number}")).collect();
    let mut waits = Vec::new();
    for owner in &owners {
        waits.push(session.send_acquire("build", owner));
    }
    session.expect_granted(waits[0]).await;
    until_waiting(&client, "build", 40).await;
    let monitor = redis.monitor().await;
    for (owner, next) in owners.iter().zip(&waits[1..]) {
        session.send_release("build", owner);
        session.expect_granted(*next).await;
    }
    let sent = commands(&monitor, &redis).await;
    let published = sent.iter().filter(|words| publishes(words)).count();
    // At least two turns of others came.
    assert!((2..WAITERS).contains(&published), "{sent:?}");
}

#[tokio::test]
async fn mission_11_a_lock_its_channel_and_its_counter_share_a_hash_slot() {
    let (redis, _coordinator, mut client) = quiet_coordinator().await;
    // Only for its opinion on slots.
    let cluster = RedisServer::start_with(&["--cluster-enabled", "yes"]).await;
    for name in ["build", "a:{b}", "{a}{b}", "{a{b}}", "x{a}y", "a b"] {
        let monitor = redis.monitor().await;
        let take = try_request(name, "a").with_id("take");
        client.api.try_acquire(take).await.unwrap();
        let mut session = client.open().await;
        let op_id = session.send_acquire(name, "");
        session.answer(op_id).await;
        let give = pb::ReleaseRequest::named(name).by("a").with_id("give");
        client.api.release(give).await.unwrap();
        session.expect_granted(op_id).await;
        session.close().await.unwrap();

        let slot = cluster.text(&["CLUSTER", "KEYSLOT", name]).await;
        let mut keys_seen = 0;
        for words in commands(&monitor, &redis).await {
            let keys = match words[0].as_str() {
                // The ends of sessions are no lock's.
                "EVALSHA" if words[3].starts_with("lockkeeper_ended") => continue,
                "EVALSHA" => &words[3..3 + words[2].parse::<usize>().unwrap()],
                "SUBSCRIBE" | "UNSUBSCRIBE" => &words[1..],
                other => panic!("{other}"),
            };
            for key in keys {
                let of_key = cluster.text(&["CLUSTER", "KEYSLOT", key]).await;
                assert_eq!(of_key, slot, "{key} of {name}");
            }
            keys_seen += keys.len();
        }
        assert!(keys_seen > 10, "{keys_seen}");
    }
}

#[tokio::test]
async fn mission_23_ten_thousand_takes_and_releases_of_distinct_names() {
    const NAMES: usize = 10_000;
    let (redis, coordinator, mut client) = quiet_coordinator().await;
    let mut session = client.open().await;
    let mut last_token = 0;
    for number in 0..NAMES {
        let name = format!("name-{number}");
        let grant = session.acquire(&name).await;
        assert!(grant.hold_count == 1 && grant.fencing_token > last_token);
        last_token = grant.fencing_token;
        assert!(session.release(&name).await.released, "{name}");
    }
    session.close().await.unwrap();
    expect_no_trace(&redis).await;
    // One counter for each name, and for the one of the warm-up; and the end of the session.
    assert_eq!(redis.text(&["DBSIZE"]).await, (NAMES + 2).to_string());
    coordinator.assert_alive();
}
