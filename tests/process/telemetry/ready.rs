//! What the store is unable to do shows in `/readyz` and in metrics while it lasts.

use crate::prelude::*;
use crate::telemetry::http::get;

async fn until(coordinator: &Coordinator, path: &str, wanted: &str) {
    let address = coordinator.admin_address().await;
    eventually(wanted, || async move {
        let (head, body) = get(address, path, "*/*").await;
        format!("{head}\n{body}").contains(wanted)
    })
    .await;
}

#[tokio::test]
async fn a_store_that_refuses_writes_is_not_ready() {
    let redis =
        RedisServer::start_with(&["--save", "3600 1", "--enable-protected-configs", "yes"]).await;
    let settings = Settings::on(&redis.url()).with("admin.listen", "127.0.0.1:0");
    let coordinator = Coordinator::start(&settings).await;
    until(&coordinator, "/readyz", "200 ok").await;

    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    until(&coordinator, "/readyz", "the store is out of memory").await;
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    until(&coordinator, "/readyz", "200 ok").await;

    let gone = tempfile::TempDir::new().unwrap();
    let path = gone.path().to_str().unwrap().to_owned();
    redis.command(&["CONFIG", "SET", "dir", &path]).await;
    drop(gone);
    redis.command(&["BGSAVE"]).await;
    until(&coordinator, "/readyz", "MISCONF").await;
}

#[tokio::test]
async fn an_eviction_policy_shows_after_a_reconnect() {
    let redis = RedisServer::start().await;
    let settings = Settings::on(&redis.url()).with("admin.listen", "127.0.0.1:0");
    let coordinator = Coordinator::start(&settings).await;
    until(&coordinator, "/metrics", "lockkeeper_store_may_evict 0").await;
    let policy = ["CONFIG", "SET", "maxmemory-policy", "volatile-lru"];
    redis.command(&policy).await;
    redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    until(&coordinator, "/metrics", "lockkeeper_store_may_evict 1").await;
}
