//! Whether a coordinator is ready, by what its store can do: probes are answered alike, the reason
//! is the store's own, and each change is logged once.

use std::net::Ipv4Addr;

use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::prelude::*;
use crate::{cluster::Cluster, steps::refusal_to_start, telemetry::http::get, tls::Certificate};

fn with_admin(store: &str) -> Settings {
    settings_on(store).with("admin.listen", "127.0.0.1:0")
}

/// The answer of a path of the admin port.
async fn asked(coordinator: &Coordinator, path: &str) -> String {
    let (head, body) = get(coordinator.admin_address().await, path, "*/*").await;
    format!("{head}\n{body}")
}

async fn until(coordinator: &Coordinator, path: &str, wanted: &str) {
    eventually(wanted, || async {
        asked(coordinator, path).await.contains(wanted)
    })
    .await;
}

async fn health(coordinator: &Coordinator) -> ServingStatus {
    let request = HealthCheckRequest {
        service: "lockkeeper.v1.LockService".to_owned(),
    };
    let channel = coordinator.client().await.channel();
    let answer = HealthClient::new(channel).check(request).await.unwrap();
    answer.into_inner().status()
}

fn logged(coordinator: &Coordinator, text: &str) -> usize {
    coordinator.log().matches(text).count()
}

#[tokio::test]
async fn a_cluster_is_ready_while_one_of_its_masters_takes_writes() {
    let mut store = Cluster::start_without_replicas().await;
    for node in store.running() {
        let partly = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
        store.node(node).command(&partly).await;
    }
    let coordinator = Coordinator::start(&with_admin(&store.url())).await;
    until(&coordinator, "/readyz", "200 ok").await;

    let dead = store.master_of("lockkeeper_never").await.unwrap();
    store.kill(dead);
    eventually("the dead master is named", || async {
        asked(&coordinator, "/readyz").await;
        logged(&coordinator, "a server of the store takes no writes") == 1
    })
    .await;
    until(&coordinator, "/readyz", "200 ok").await;
    assert_eq!(health(&coordinator).await, ServingStatus::Serving);
    assert_eq!(logged(&coordinator, "not ready"), 0);

    for node in store.running() {
        store.kill(node);
    }
    until(&coordinator, "/readyz", "503").await;
    assert_eq!(health(&coordinator).await, ServingStatus::NotServing);
}

#[tokio::test]
async fn probes_agree_and_give_the_stores_reason_and_changes_are_logged_once() {
    let redis = RedisServer::start().await;
    let coordinator = Coordinator::start(&with_admin(&redis.url())).await;
    until(&coordinator, "/readyz", "200 ok").await;
    for round in 1..=2 {
        let replicas = |least| ["CONFIG", "SET", "min-replicas-to-write", least];
        redis.command(&replicas("1")).await;
        until(&coordinator, "/readyz", "NOREPLICAS").await;
        until(&coordinator, "/readyz", "NOREPLICAS").await;
        assert_eq!(health(&coordinator).await, ServingStatus::NotServing);
        assert_eq!(logged(&coordinator, "not ready"), round);
        redis.command(&replicas("0")).await;
        until(&coordinator, "/readyz", "200 ok").await;
        assert_eq!(health(&coordinator).await, ServingStatus::Serving);
        assert_eq!(logged(&coordinator, "ready again"), round);
    }
}

#[tokio::test]
async fn rights_that_only_a_cluster_needs_are_looked_at_too() {
    let store = Cluster::start_without_replicas().await;
    let user = [
        "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all",
    ];
    let less = |rights: &[&'static str]| [&user[..], rights].concat();
    let url = store.url().replacen("://", "://app:secret@", 1);
    for node in store.running() {
        let less = less(&["-asking", "-ssubscribe"]);
        store.node(node).command(&less).await;
    }
    let coordinator = Coordinator::start(&with_admin(&url)).await;
    until(
        &coordinator,
        "/metrics",
        "lockkeeper_store_rights_missing 6",
    )
    .await;
    coordinator.until_logged("asking ssubscribe").await;

    for node in store.running() {
        let less = less(&["-cluster|info"]);
        store.node(node).command(&less).await;
    }
    let coordinator = Coordinator::start(&with_admin(&url)).await;
    coordinator.until_logged("cluster|info").await;
    until(&coordinator, "/readyz", "cluster|info").await;
    until(
        &coordinator,
        "/metrics",
        "lockkeeper_store_rights_missing 1",
    )
    .await;
}

#[tokio::test]
async fn a_key_of_another_certificate_is_refused_at_start() {
    let (own, other) = (
        Certificate::of(&[Ipv4Addr::LOCALHOST]),
        Certificate::of(&[Ipv4Addr::LOCALHOST]),
    );
    let secret = "0123456789abcdef0123456789abcdef";
    for section in ["store.tls", "fleet"] {
        let [certificate, key] =
            ["certificate_file", "key_file"].map(|it| format!("{section}.{it}"));
        let (code, said) = refusal_to_start(&[
            ("store.url", "rediss://localhost:1"),
            ("session.secret", secret),
            ("fleet.address", "127.0.0.1"),
            (&certificate, &own.certificate()),
            (&key, &other.key()),
        ])
        .await;
        assert_eq!(code, Some(78), "{said}");
        let expected = format!("{key}: {}: does not fit {certificate}", other.key());
        assert!(said.contains(&expected), "{said}");
    }
}
