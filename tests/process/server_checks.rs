//! What a server is, is looked at before it is used, and said to whoever asks for a lock.

use crate::prelude::*;
use crate::{
    fake_redis::{FakeRedis, bulk},
    refusing_port::RefusingPort,
};

/// What an acquire is told on this store, which cannot be used, and what the log says.
async fn refusal(settings: &Settings) -> (String, String, Coordinator) {
    let coordinator = Coordinator::start(settings).await;
    eventually("it has tried", || async {
        coordinator.log().contains("cannot connect")
    })
    .await;
    let mut client = coordinator.client().await;
    let refused = client.try_acquire("build", "x", secs(9)).await.unwrap_err();
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE", "{refused}");
    let log = coordinator.log();
    (refused.message().to_owned(), log, coordinator)
}

#[tokio::test]
async fn a_redis_that_is_too_old_is_refused() {
    let redis = FakeRedis::start(|words| match words[0].as_str() {
        "HELLO" => Some("%1\r\n+server\r\n+redis\r\n".to_owned()),
        "INFO" => Some(bulk("# Server\r\nredis_version:6.0.16\r\nrun_id:x\r\n")),
        "ROLE" => Some("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_owned()),
        _ => None,
    })
    .await;
    let (told, log, _coordinator) = refusal(&settings_on(&redis.url())).await;
    let expected = "the server is Redis 6.0.16; 6.2 or newer is needed";
    assert!(
        told.contains(expected) && log.contains(expected),
        "{told} {log}"
    );
}

#[tokio::test]
async fn a_redis_without_resp3_is_refused() {
    let redis = FakeRedis::start(|words| {
        let unknown = "-ERR unknown command `HELLO`, with args beginning with: \r\n";
        (words[0] == "HELLO").then(|| unknown.to_owned())
    })
    .await;
    let (told, log, _coordinator) = refusal(&settings_on(&redis.url())).await;
    let expected = "older than Redis 6; 6.2 or newer is needed";
    assert!(
        told.contains(expected) && log.contains(expected),
        "{told} {log}"
    );
}

#[tokio::test]
async fn a_replica_given_as_master_is_refused_until_it_is_one() {
    let master = RedisServer::start().await;
    let port = master.port().to_string();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    let (told, log, coordinator) = refusal(&settings_on(&replica.url())).await;
    for text in [&told, &log] {
        assert!(text.contains("the server is a replica"), "{text}");
        assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
        assert!(text.contains("redis+sentinel://"), "{text}");
    }
    replica.command(&["REPLICAOF", "NO", "ONE"]).await;
    expect_serving(&coordinator).await;
}

#[tokio::test]
async fn sentinels_that_cannot_be_reached_are_counted() {
    let ports = [(); 3].map(|()| RefusingPort::take());
    let hosts = ports
        .each_ref()
        .map(|port| format!("127.0.0.1:{}", port.number));
    let hosts = hosts.join(",");
    let settings = settings_on(&format!("redis+sentinel://{hosts}/locks"));
    let coordinator = Coordinator::start(&settings).await;
    let mut client = coordinator.client().await;
    let expected = "of 3 sentinels 3 failed";
    eventually("the log says so", || async {
        coordinator.log().contains(expected)
    })
    .await;
    eventually("callers are told so", || {
        let mut client = client.clone();
        async move {
            let refused = client.try_acquire("build", "x", secs(9)).await.unwrap_err();
            refused.message().contains(expected)
        }
    })
    .await;
    let refused = client.try_acquire("build", "x", secs(9)).await.unwrap_err();
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
}

#[tokio::test]
async fn who_may_not_ask_goes_on_but_cannot_count_replicas() {
    let redis = RedisServer::start().await;
    let user = [
        "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info", "-role",
    ];
    redis.command(&user).await;
    let url = format!("redis://app:secret@127.0.0.1:{}", redis.port());
    let coordinator = Coordinator::start(&settings_on(&url)).await;
    expect_serving(&coordinator).await;
    let mut client = coordinator.client().await;
    let request = try_request("build", "x").acked_by(1);
    let refused = client.try_with(request).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_REPLICATED");
    assert!(refused.message().contains("may not run INFO"), "{refused}");
}

#[tokio::test]
async fn an_eviction_policy_that_could_evict_locks_is_warned_of() {
    let redis = RedisServer::start_with(&["--maxmemory-policy", "allkeys-lru"]).await;
    let coordinator = Coordinator::start(&settings_on(&redis.url())).await;
    eventually("it is warned of", || async {
        let log = coordinator.log();
        log.contains("\"level\":\"WARN\"") && log.contains("allkeys-lru")
    })
    .await;
    expect_serving(&coordinator).await;
}
