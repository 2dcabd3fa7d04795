//! The admin port: its connections are few, and none of them may be slow.

use std::{fs, net::Ipv4Addr};

use tokio::net::TcpSocket;

use super::Scene;
use crate::prelude::*;
use crate::telemetry::http::get;

async fn connect(address: std::net::SocketAddr, from: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::from(from), 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_requests_are_closed_and_leave_places_to_others() {
    const CONNECTIONS: usize = 400;
    let settings = Settings::on("embedded:").with("admin.listen", "127.0.0.1:0");
    let scene = Scene::begin_with(settings).await;
    let admin = scene.coordinator.admin_address().await;
    let begun = Instant::now();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = connect(admin, [127, 0, 0, 2]).await;
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: ").await;
        open.push(stream);
    }
    let files = scene.coordinator.open_files();
    assert!(files < 150, "{files} files of one address");
    let alive = timeout(secs(10), get(admin, "/livez", "*/*")).await;
    assert!(alive.expect("in time").0.starts_with("http/1.1 200"));
    let closed = open.iter_mut().map(|stream| async {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
    });
    let closed = timeout(secs(20), join_all(closed)).await;
    assert!(closed.is_ok(), "some are still open");
    measured("until all were closed", begun.elapsed());
    scene.end(16 * super::MIB).await;
}

/// How often it has asked its store whether that takes writes.
async fn probes(admin: std::net::SocketAddr) -> f64 {
    let (_, shown) = get(admin, "/metrics", "*/*").await;
    let counts = shown
        .lines()
        .filter(|line| line.starts_with("lockkeeper_store_call_seconds_count"))
        .filter(|line| line.contains("store_write"))
        .filter_map(|line| line.rsplit_once(' '));
    counts.map(|(_, count)| count.parse::<f64>().unwrap()).sum()
}

#[tokio::test]
async fn probes_of_readiness_share_one_probe_of_the_store() {
    const PROBES: usize = 300;
    let settings = Settings::on("embedded:").with("admin.listen", "127.0.0.1:0");
    let coordinator = Coordinator::start(&settings).await;
    let admin = coordinator.admin_address().await;
    let before = probes(admin).await;
    let begun = Instant::now();
    for _ in 0..PROBES {
        assert_eq!(get(admin, "/readyz", "*/*").await.1, "ok\n");
    }
    let more = probes(admin).await - before;
    let seconds = begun.elapsed().as_secs_f64();
    assert!(more <= seconds + 2.0, "{more} probes in {seconds} s");
}

#[tokio::test]
async fn metrics_can_require_a_token() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let folder = TempDir::new().unwrap();
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, format!("scraper {TOKEN}\n")).unwrap();
    // A port that is otherwise open admits callers without an identity.
    for is_open in ["false", "true"] {
        let settings = Settings::on("embedded:")
            .with("admin.listen", "127.0.0.1:0")
            .with("auth.token_file", &tokens.display().to_string())
            .with("admin.authenticate_metrics", "true")
            .with("admin.allow_unauthenticated", is_open);
        let coordinator = Coordinator::start(&settings).await;
        let admin = coordinator.admin_address().await;
        let (head, shown) = get(admin, "/metrics", "*/*").await;
        assert!(head.starts_with("http/1.1 401"), "{head}");
        assert!(!shown.contains("lockkeeper_"), "{shown}");
        let shown = format!("*/*\r\nAuthorization: Bearer {TOKEN}");
        let (head, shown) = get(admin, "/metrics", &shown).await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(shown.contains("lockkeeper_build_info"));
        assert!(
            get(admin, "/livez", "*/*")
                .await
                .0
                .starts_with("http/1.1 200")
        );
    }
}

#[tokio::test]
async fn a_query_that_is_wrong_is_answered_in_json() {
    let settings = Settings::on("embedded:").with("admin.listen", "127.0.0.1:0");
    let coordinator = Coordinator::start(&settings).await;
    let admin = coordinator.admin_address().await;
    for path in ["locks?pageSize=x", "sessions?pageSize=x", "events?fleet=x"] {
        let (head, shown) = get(admin, &format!("/api/v1/{path}"), "*/*").await;
        assert!(head.starts_with("http/1.1 400"), "{path}: {head}");
        assert!(shown.contains(r#""reason":"INVALID""#), "{path}: {shown}");
    }
}
