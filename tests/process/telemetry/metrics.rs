//! `/metrics`, of the binary on a real Redis.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use lockkeeper_store::script::keys;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use super::http::get;
use crate::prelude::*;

/// Of names of metrics.
const BEGINNINGS: [&str; 3] = ["lockkeeper_", "grpc_server_", "process_"];

const ATTEMPTS: &str = "lockkeeper_store_call_seconds_count{script=\"lock_acquire\"}";
const HAND_OVERS: &str = "lockkeeper_store_call_seconds_count{script=\"lock_hand_on\"}";

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";

async fn start(store: &str) -> Coordinator {
    start_with_prefixes(store, "").await
}

async fn start_with_prefixes(store: &str, prefixes: &str) -> Coordinator {
    let settings = Settings::on(store)
        .with("admin.listen", "127.0.0.1:0")
        .with("admin.metric_prefixes", prefixes);
    Coordinator::start(&settings).await
}

fn value(seen: &BTreeMap<String, f64>, name: &str) -> f64 {
    *seen
        .get(name)
        .unwrap_or_else(|| panic!("{name} is not shown: {seen:#?}"))
}

/// What is shown in the older format: each sample by its name and labels.
async fn samples(coordinator: &Coordinator) -> BTreeMap<String, f64> {
    let address = coordinator.admin_address().await;
    let (_, body) = get(address, "/metrics", "*/*").await;
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    samples.collect()
}

/// A waiter that has heard nothing yet looks again once it would hear of a release, which is what
/// comes in place of the hand-over otherwise.
async fn until_it_looked_again(coordinator: &Coordinator) {
    eventually("it has looked again", || async {
        let seen = samples(coordinator).await;
        // The holder's, that of the try, and two of the waiter.
        seen.get(ATTEMPTS).is_some_and(|made| *made >= 4.0)
    })
    .await;
}

/// The most samples of a coordinator that nobody has called yet.
const FRESH_MAX: usize = 600;

#[tokio::test]
async fn a_fresh_coordinator_shows_few_samples() {
    let redis = RedisServer::start().await;
    let coordinator = start(&redis.url()).await;
    coordinator.until_connected(1).await;
    let seen = samples(&coordinator).await;
    assert!(seen.len() <= FRESH_MAX, "{}", seen.len());
    // What rates are made of is there before it is counted for the first time.
    for counter in [
        "lockkeeper_grants_total{mode=\"exclusive\",result=\"granted\"}",
        "lockkeeper_leases_lost_total{reason=\"expired\"}",
        "lockkeeper_store_errors_total{kind=\"unavailable\"}",
    ] {
        assert!(value(&seen, counter).abs() < 0.1, "{counter}");
    }
    let labelled = seen.keys().find(|name| name.contains("prefix="));
    assert_eq!(labelled, None);
}

#[tokio::test]
async fn names_are_counted_by_the_configured_prefixes_only() {
    let redis = RedisServer::start().await;
    let most = "a b c d e f g h jobs/ jobs/nightly/";
    let coordinator = start_with_prefixes(&redis.url(), most).await;
    coordinator.until_connected(1).await;
    let fresh = samples(&coordinator).await.len();
    assert!(fresh <= FRESH_MAX, "{fresh}");
    let mut client = coordinator.client().await;
    let mut session = open_with_lease(&mut client, millis(300)).await;
    session.acquire("jobs/nightly/1").await;
    session.acquire("x").await;
    assert!(!client.gets_for("jobs/nightly/1", "b", secs(30)).await);
    let request = acquire_request("jobs/nightly/1", "c");
    let mut waiting = client.acquire(request).await.unwrap();
    until_waiting(&client, "jobs/nightly/1", 1).await;
    redis.command(&["FLUSHALL"]).await;
    session.expect_lost().await;
    session.expect_lost().await;
    waiting.end().await.unwrap();

    let seen = samples(&coordinator).await;
    let of = |name: &str| value(&seen, &format!("lockkeeper_prefix_{name}"));
    let nightly = "prefix=\"jobs/nightly/\"";
    for (name, expected) in [
        (format!("grants_total{{{nightly},result=\"granted\"}}"), 2.0),
        (format!("grants_total{{{nightly},result=\"busy\"}}"), 1.0),
        (format!("waits_total{{{nightly}}}"), 1.0),
        (
            "grants_total{prefix=\"other\",result=\"granted\"}".to_owned(),
            1.0,
        ),
        (
            "leases_lost_total{prefix=\"other\",reason=\"expired\"}".to_owned(),
            1.0,
        ),
        (
            "grants_total{prefix=\"jobs/\",result=\"granted\"}".to_owned(),
            0.0,
        ),
        ("waits_total{prefix=\"other\"}".to_owned(), 0.0),
    ] {
        assert!((of(&name) - expected).abs() < 0.1, "{name}: {seen:#?}");
    }
    // The waiter may have the lock before the watchdog looks.
    let lost = ["expired", "taken_over"].map(|reason| {
        of(&format!(
            "leases_lost_total{{{nightly},reason=\"{reason}\"}}"
        ))
    });
    assert!((lost[0] + lost[1] - 1.0).abs() < 0.1, "{lost:?}");
    let waited = of(&format!("waited_seconds_total{{{nightly}}}"));
    assert!(waited > 0.0 && waited < 60.0, "{waited}");
}

#[tokio::test]
async fn what_happens_is_counted() {
    let redis = RedisServer::start().await;
    let coordinator = start(&redis.url()).await;
    let mut client = coordinator.client().await;
    let mut session = client.open().await;
    session.acquire("build").await;
    assert!(!client.gets_for("build", "b", secs(30)).await);
    let mut waiting = client.acquire(acquire_request("build", "c")).await.unwrap();
    until_waiting(&client, "build", 1).await;
    until_it_looked_again(&coordinator).await;

    let seen = samples(&coordinator).await;
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
    // The last one may have been made together with the release.
    let handed_over = seen.get(HAND_OVERS).copied().unwrap_or_default();
    assert!(value(&seen, ATTEMPTS) + handed_over >= 5.0, "{seen:#?}");
    let handled = seen.keys().find(|name| {
        name.starts_with("grpc_server_handled_total")
            && name.contains("grpc_method=\"TryAcquire\"")
            && name.contains("grpc_code=\"OK\"")
    });
    assert!(handled.is_some(), "{seen:#?}");
    assert!(value(&seen, "process_resident_memory_bytes") > 1e6);

    expect_store_gone(&coordinator, &redis).await;
}

/// The store goes away, and the page still comes.
async fn expect_store_gone(coordinator: &Coordinator, redis: &RedisServer) {
    redis.stop();
    // The last probe may be good for up to a second more.
    eventually("it shows that the store is gone", || async {
        let seen = samples(coordinator).await;
        value(&seen, "lockkeeper_store_up{store=\"1\"}").abs() < 0.1
    })
    .await;
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
    let counter = keys::counter("other").to_string();
    redis.command(&["SET", &counter, "8000000000000000"]).await;
    let tried = client.try_acquire("other", "b", secs(30)).await.unwrap();
    assert!(tried.grant.unwrap().fencing_token > 8_000_000_000_000_000);
    assert!(client.release("other", "b").await.unwrap().released);
    redis.command(&["FLUSHALL"]).await;
    session.expect_lost().await;
    assert!(client.gets_for("other", "b", secs(30)).await);
    let seen = samples(&coordinator).await;
    let lost = seen["lockkeeper_leases_lost_total{reason=\"expired\"}"];
    assert!((lost - 1.0).abs() < 0.1, "{seen:#?}");
    assert!(
        seen["lockkeeper_fencing_token_regressions_total"] > 0.5,
        "{seen:#?}"
    );
}

#[tokio::test]
async fn what_is_refused_is_counted_by_why() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket").display().to_string();
    let settings = Settings::on("embedded:")
        .with("admin.listen", "127.0.0.1:0")
        .with("server.connections_max", "2")
        .with("server.http_json", "false")
        // Whose callers have names, and so quotas.
        .with("server.uds_path", &path)
        .with("access.quotas.sessions", "1")
        .with("access.quotas.waiters", "1");
    let coordinator = Coordinator::start(&settings).await;
    let channel = Endpoint::from_shared(format!("unix://{path}")).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut client = Client::new(channel, CancellationToken::new());
    let mut session = client.open().await;
    session.acquire("build").await;
    assert!(client.open_with(pb::OpenSession::default()).await.is_err());
    let _first = client.acquire(acquire_request("build", "b")).await.unwrap();
    until_waiting(&client, "build", 1).await;
    let mut second = client.acquire(acquire_request("build", "c")).await.unwrap();
    assert!(second.end().await.is_err());
    let not_held = session.send_release("other", "");
    assert_eq!(session.expect_failed(not_held).await, "NOT_OWNER");

    // One that does not speak HTTP/2, one that is let in, and one too many.
    let mut strange = TcpStream::connect(coordinator.address()).await.unwrap();
    strange.write_all(&[b'x'; 100]).await.unwrap();
    assert!(is_closed(&mut strange).await);
    let open = TcpStream::connect(coordinator.address()).await.unwrap();
    eventually("it counts", || async {
        let seen = samples(&coordinator).await;
        let strange = "lockkeeper_connections_refused_total{reason=\"handshake\"}";
        (seen["lockkeeper_connections"] - 2.0).abs() < 0.1 && (seen[strange] - 1.0).abs() < 0.1
    })
    .await;
    let mut refused = TcpStream::connect(coordinator.address()).await.unwrap();
    assert!(is_closed(&mut refused).await);
    drop(open);

    let seen = samples(&coordinator).await;
    for (name, expected) in [
        ("quota_refusals_total{quota=\"sessions\"}", 1.0),
        ("quota_refusals_total{quota=\"waiters\"}", 1.0),
        ("quota_refusals_total{quota=\"grants\"}", 0.0),
        ("frames_failed_total{grpc_code=\"FailedPrecondition\"}", 1.0),
        ("frames_failed_total{grpc_code=\"Internal\"}", 0.0),
        ("connections_refused_total{reason=\"connections_max\"}", 1.0),
        ("connections_refused_total{reason=\"accept\"}", 0.0),
    ] {
        let value = seen[&format!("lockkeeper_{name}")];
        assert!((value - expected).abs() < 0.1, "{name}: {seen:#?}");
    }
}

/// Whether a connection is closed without a word.
async fn is_closed(connection: &mut TcpStream) -> bool {
    matches!(connection.read(&mut [0]).await, Ok(0) | Err(_))
}

#[tokio::test]
async fn exactly_what_is_documented_is_shown() {
    let coordinator = start_with_prefixes("embedded:", "jobs/").await;
    let mut client = coordinator.client().await;
    assert!(client.gets_for("build", "a", secs(30)).await);
    let address = coordinator.admin_address().await;
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
