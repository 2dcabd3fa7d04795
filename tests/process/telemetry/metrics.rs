//! `/metrics`, of the binary on a real Redis.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use lockkeeper::script::keys;

use super::http::{admin_address, get};
use crate::{
    client::acquire_request,
    coordinator::{Coordinator, Settings},
    redis_server::RedisServer,
    steps::{millis, open_with_lease, secs, until_waiting},
};

/// Of names of metrics.
const BEGINNINGS: [&str; 3] = ["lockkeeper_", "grpc_server_", "process_"];

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";

async fn start(store: &str) -> Coordinator {
    let settings = Settings::on(store).with("admin.listen", "127.0.0.1:0");
    Coordinator::start(&settings).await
}

/// What is shown in the older format: each sample by its name and labels.
async fn samples(coordinator: &Coordinator) -> BTreeMap<String, f64> {
    let address = admin_address(coordinator).await;
    let (_, body) = get(address, "/metrics", "*/*").await;
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    samples.collect()
}

#[tokio::test]
async fn what_happens_is_counted() {
    let redis = RedisServer::start().await;
    let coordinator = start(&redis.url()).await;
    let mut client = coordinator.client().await;
    let mut session = client.open().await;
    session.acquire("build").await;
    assert!(
        !client
            .try_acquire("build", "b", secs(30))
            .await
            .unwrap()
            .acquired
    );
    let mut waiting = client.acquire(acquire_request("build", "c")).await.unwrap();
    until_waiting(&client, "build", 1).await;

    let seen = samples(&coordinator).await;
    let value = |seen: &BTreeMap<String, f64>, name: &str| {
        *seen
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not shown: {seen:#?}"))
    };
    for (name, expected) in [
        (
            "lockkeeper_grants_total{mode=\"exclusive\",result=\"granted\"}",
            1.0,
        ),
        (
            "lockkeeper_grants_total{mode=\"exclusive\",result=\"busy\"}",
            1.0,
        ),
        ("lockkeeper_sessions", 1.0),
        ("lockkeeper_holds", 1.0),
        ("lockkeeper_waiters", 1.0),
        ("lockkeeper_store_up{store=\"1\"}", 1.0),
        ("lockkeeper_fencing_token_regressions_total", 0.0),
        ("lockkeeper_draining", 0.0),
    ] {
        assert!(
            (value(&seen, name) - expected).abs() < 0.1,
            "{name}: {seen:#?}"
        );
    }

    assert!(session.release("build").await.released);
    waiting.end().await.unwrap();
    let seen = samples(&coordinator).await;
    for (name, expected) in [
        ("lockkeeper_releases_total{result=\"released\"}", 1.0),
        ("lockkeeper_hold_seconds_count", 1.0),
        ("lockkeeper_wait_seconds_count{result=\"granted\"}", 2.0),
        ("lockkeeper_handover_seconds_count{source=\"local\"}", 1.0),
        ("lockkeeper_holds", 0.0),
        ("lockkeeper_waiters", 0.0),
    ] {
        assert!(
            (value(&seen, name) - expected).abs() < 0.1,
            "{name}: {seen:#?}"
        );
    }
    let calls = "lockkeeper_store_call_seconds_count{script=\"lock_acquire\"}";
    assert!(value(&seen, calls) >= 3.0, "{seen:#?}");
    let handled = seen.keys().find(|name| {
        name.starts_with("grpc_server_handled_total")
            && name.contains("grpc_method=\"TryAcquire\"")
            && name.contains("grpc_code=\"OK\"")
    });
    assert!(handled.is_some(), "{seen:#?}");
    assert!(value(&seen, "process_resident_memory_bytes") > 1e6);

    // The store goes away, and the page still comes.
    redis.stop();
    let seen = samples(&coordinator).await;
    assert!(value(&seen, "lockkeeper_store_up{store=\"1\"}").abs() < 0.1);
    redis.cont();
}

#[tokio::test]
async fn a_lost_lease_is_counted_with_its_reason_and_a_smaller_token_is_noticed() {
    let redis = RedisServer::start().await;
    let coordinator = start(&redis.url()).await;
    let mut client = coordinator.client().await;
    let mut session = open_with_lease(&mut client, millis(300)).await;
    session.acquire("build").await;
    // As a store would have it whose clock was ahead.
    let counter = String::from_utf8(keys::counter("other").to_vec()).unwrap();
    redis.command(&["SET", &counter, "8000000000000000"]).await;
    let tried = client.try_acquire("other", "b", secs(30)).await.unwrap();
    assert!(tried.grant.unwrap().fencing_token > 8_000_000_000_000_000);
    assert!(client.release("other", "b").await.unwrap().released);
    redis.command(&["FLUSHALL"]).await;
    session.expect_lost().await;
    assert!(
        client
            .try_acquire("other", "b", secs(30))
            .await
            .unwrap()
            .acquired
    );
    let seen = samples(&coordinator).await;
    let lost = seen["lockkeeper_leases_lost_total{reason=\"expired\"}"];
    assert!((lost - 1.0).abs() < 0.1, "{seen:#?}");
    assert!(
        seen["lockkeeper_fencing_token_regressions_total"] > 0.5,
        "{seen:#?}"
    );
}

#[tokio::test]
async fn exactly_what_is_documented_is_shown() {
    let coordinator = start("embedded:").await;
    let mut client = coordinator.client().await;
    assert!(
        client
            .try_acquire("build", "a", secs(30))
            .await
            .unwrap()
            .acquired
    );
    let address = admin_address(&coordinator).await;
    let (head, body) = get(address, "/metrics", OPEN_METRICS).await;
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(body.ends_with("# EOF\n"));
    let (head, body) = get(address, "/metrics", "text/plain").await;
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    let types = body.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let shown: BTreeSet<&str> = types.map(|line| line.split(' ').next().unwrap()).collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let page = fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<&str> = rows
        .filter_map(|row| row.split('`').next())
        .filter(|name| BEGINNINGS.iter().any(|it| name.starts_with(it)))
        .collect();
    assert_eq!(shown, documented);
}
