//! A coordinator whose user of Redis may do what the documentation says that it needs, and nothing
//! else.

use lockkeeper_client::Observed;

use crate::prelude::*;
use crate::several::{specs, try_all};

const DOCUMENT: &str = include_str!("../../docs/configuration/store.md");

const PASSWORD: &str = "p@ss/word:1";

/// The words of the command that the documentation shows.
fn documented() -> Vec<&'static str> {
    let from = DOCUMENT.find("ACL SETUSER").expect("it shows one");
    let command = DOCUMENT[from..].split("```").next().unwrap();
    let words = command.split_whitespace();
    let words: Vec<_> = words
        .map(|word| {
            if word == ">PASSWORD" {
                ">p@ss/word:1"
            } else {
                word
            }
        })
        .collect();
    assert!(words.len() > 50 && words[3] == "on", "{words:?}");
    words
}

/// A coordinator with this user, whose password is in a file.
async fn restricted(redis: &RedisServer) -> (Coordinator, Client, tempfile::TempDir) {
    redis.command(&documented()).await;
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let url = format!("redis://lockkeeper@127.0.0.1:{}/1", redis.port());
    let settings: Settings = settings_on(&url)
        .with("store.password_file", file.to_str().unwrap())
        .with("store.key_prefix", "app:")
        .with("store.poll_interval", "60s");
    let coordinator = Coordinator::start(&settings).await;
    coordinator.until_connected(1).await;
    let client = coordinator.client().await;
    (coordinator, client, directory)
}

fn wanting(name: &str, mode: LockMode) -> Request {
    Request::Acquire(
        acquire_request(name, "")
            .in_mode(mode)
            .with_id(uuid::Uuid::new_v4().to_string()),
    )
}

/// Two sessions take a lock in turns: the second waits and is woken.
async fn hand_over(client: &mut Client, name: &str, mode: LockMode) {
    let (mut holder, mut waiter): (Session, Session) = (client.open().await, client.open().await);
    let op_id = holder.send(wanting(name, mode));
    holder.expect_granted(op_id).await;
    // Nobody waits for a reader that only reads.
    let next = if mode == LockMode::Read {
        LockMode::Write
    } else {
        mode
    };
    let waiting = waiter.send(wanting(name, next));
    eventually("it waits", || {
        let mut client = client.clone();
        async move { client.describe(name).await.waiter_count == 1 }
    })
    .await;
    let renew = holder.send(Request::Renew(pb::RenewRequest::named(name).in_mode(mode)));
    let renewed = holder.end(renew).await;
    assert!(format!("{renewed:?}").contains("Renewed"), "{renewed:?}");
    let release = holder.send(Request::Release(
        pb::ReleaseRequest::named(name)
            .in_mode(mode)
            .with_id("once"),
    ));
    let released = holder.end(release).await;
    assert!(format!("{released:?}").contains("Released"), "{released:?}");
    waiter.expect_granted(waiting).await;
    // Cancelled waits leave the queue, and take their marks away.
    let cancelled = holder.send(wanting(name, mode));
    holder.send_as(cancelled, Request::Cancel(pb::CancelOperation {}));
    holder.end(cancelled).await;
    waiter.close().await.unwrap();
    holder.close().await.unwrap();
}

/// A leader that is observed: nobody polls.
async fn elect(coordinator: &Coordinator, name: &str) {
    let url = coordinator.url();
    let client = lockkeeper_client::Client::connect(&url).await.unwrap();
    let mut observer = client.observe(name, 0);
    let session = client.session().open().await.unwrap();
    let seen = observer.next().await.unwrap();
    assert!(matches!(seen, Observed::NoLeader(_)), "{seen:?}");
    let leader = session.election(name).campaign("first").await.unwrap();
    until_proclaimed(&mut observer, "first").await;
    leader.proclaim("second").await.unwrap();
    until_proclaimed(&mut observer, "second").await;
    leader.resign().await.unwrap();
    let seen = observer.next().await.unwrap();
    assert!(matches!(seen, Observed::NoLeader(_)), "{seen:?}");
}

async fn until_proclaimed(observer: &mut lockkeeper_client::Observer, value: &str) {
    loop {
        match observer.next().await.unwrap() {
            Observed::Leader(leader) if leader.value == value => return,
            // It leads, and has not proclaimed anything yet.
            Observed::NoLeader(_) => {}
            seen => panic!("{seen:?}"),
        }
    }
}

#[tokio::test]
async fn mission_21_the_documented_permissions_are_enough_for_everything() {
    let redis = RedisServer::start().await;
    let (coordinator, mut client, _directory) = restricted(&redis).await;
    for mode in [
        LockMode::Exclusive,
        LockMode::Fair,
        LockMode::Read,
        LockMode::Write,
    ] {
        for name in ["build", "with{a-tag}"] {
            hand_over(&mut client, &format!("{name}-{mode:?}"), mode).await;
        }
    }
    let all = try_all(specs(&["k", "l{m}"]), "x");
    assert!(client.try_all(all).await.unwrap().acquired);

    for name in ["pool", "pool{a-tag}"] {
        let mut semaphore = Semaphore::new(&client, name);
        semaphore.set(2).await;
        let grant = semaphore.take("x", 2, secs(60)).await;
        let waiting = semaphore.request("y", 1);
        let mut waiting = semaphore.waits(waiting).await;
        semaphore
            .renew("x", &grant.permit_ids, secs(60))
            .await
            .unwrap();
        semaphore.release("x", &grant.permit_ids).await.unwrap();
        waiting.expect_granted().await;
        assert_eq!(semaphore.describe().await.total, 2);
        let mut latch = Latch::new(&client, &format!("door-{name}"));
        assert!(latch.set(2).await);
        let mut waiting = latch.wait(None).await;
        waiting.expect_waiting(2).await;
        latch.count_down(2).await.unwrap();
        waiting.expect_opened().await;
        assert!(latch.set(1).await && latch.delete().await);
    }
    for name in ["workers", "workers{a-tag}"] {
        elect(&coordinator, name).await;
    }
    let log = coordinator.log();
    assert!(!log.contains("NOPERM"), "{log}");
    assert!(!log.contains("may not run"), "{log}");
    assert!(!log.contains(PASSWORD) && !log.contains("p%40ss"), "{log}");
    assert_eq!(
        redis.text(&["DBSIZE"]).await,
        "0",
        "all is in the other database"
    );
}

#[tokio::test]
async fn they_are_enough_for_counting_replicas() {
    let at_once = ["--repl-diskless-sync-delay", "0"];
    let redis = RedisServer::start_with(&at_once).await;
    let port = redis.port().to_string();
    let _replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    let (_coordinator, client, _directory) = restricted(&redis).await;
    eventually("the replica is counted", || {
        let mut client = client.clone();
        async move {
            let request = try_request("build", "x").lasting(secs(60)).acked_by(1);
            let tried = client.api.try_acquire(request).await;
            tried.is_ok_and(|tried| tried.into_inner().acquired)
        }
    })
    .await;
}

#[tokio::test]
async fn names_outside_of_the_prefix_are_out_of_reach() {
    let redis = RedisServer::start().await;
    redis.command(&documented()).await;
    let url = format!(
        "redis://lockkeeper:p%40ss%2Fword%3A1@127.0.0.1:{}",
        redis.port()
    );
    let settings = settings_on(&url).with("store.key_prefix", "other:");
    let coordinator = Coordinator::start(&settings).await;
    coordinator.until_connected(1).await;
    let mut client = coordinator.client().await;
    let refused = client
        .try_acquire("build", "x", secs(60))
        .await
        .unwrap_err();
    assert_eq!(reason(&refused), "STORE_REFUSED");
    // The store's own words are for operators.
    assert!(!refused.message().contains("NOPERM"), "{refused}");
    eventually("it is logged", || async {
        coordinator.log().contains("NOPERM")
    })
    .await;
}

#[tokio::test]
async fn a_missing_right_to_announce_elections_is_named() {
    let redis = RedisServer::start().await;
    let lacking = [
        "ACL",
        "SETUSER",
        "u",
        "on",
        ">p",
        "~*",
        "&redisson_*",
        "+@all",
    ];
    redis.command(&lacking).await;
    let url = format!("redis://u:p@127.0.0.1:{}", redis.port());
    let coordinator = Coordinator::start(&settings_on(&url)).await;
    eventually("it is named", || async {
        coordinator.log().contains("missing=\"publish\"")
            || coordinator.log().contains("\"missing\":\"publish\"")
    })
    .await;
}

#[tokio::test]
async fn a_missing_right_is_named_when_the_store_is_reached() {
    let redis = RedisServer::start().await;
    let lacking = [
        "ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-pexpire", "-zadd",
    ];
    redis.command(&lacking).await;
    let url = format!("redis://u:p@127.0.0.1:{}", redis.port());
    let coordinator = Coordinator::start(&settings_on(&url)).await;
    eventually("it is named", || async {
        coordinator.log().contains("pexpire zadd")
    })
    .await;
    let mut client = coordinator.client().await;
    let refused = client.try_acquire("a", "x", secs(60)).await.unwrap_err();
    assert_eq!(reason(&refused), "STORE_REFUSED");
    assert_eq!(redis.text(&["EXISTS", "a"]).await, "0");
}
