//! Log lines as JSON: one for each change of state, with the trace it belongs to, and never a
//! credential.

use lockkeeper_api::pb::lock_admin_service_client::LockAdminServiceClient;
use serde_json::Value;

use super::collector::Collector;
use crate::prelude::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[tokio::test]
async fn changes_are_told_with_their_trace_and_without_credentials() {
    let collector = Collector::start().await;
    let secret = "a-secret-of-many-more-than-32-bytes";
    let settings = Settings::on("embedded:")
        .with("session.secret", secret)
        .with("telemetry.otlp_endpoint", &collector.url());
    let coordinator = Coordinator::start(&settings).await;
    let mut client = coordinator.client().await;
    let mut session = client.open().await;
    session.acquire_as("build", "the-owner").await;
    let mut request = tonic::Request::new(pb::TryAcquireRequest::named("other").by("a-credential"));
    let context = format!("00-{TRACE}-00f067aa0ba902b7-01").parse().unwrap();
    request.metadata_mut().insert("traceparent", context);
    client.api.try_acquire(request).await.unwrap();
    let mut admin = LockAdminServiceClient::new(client.channel());
    let release = pb::ForceReleaseRequest::named("build").because("stuck");
    assert!(
        admin
            .force_release(release)
            .await
            .unwrap()
            .into_inner()
            .released
    );
    session.expect_lost().await;

    for last in ["\"target\":\"audit\"", "grant lost"] {
        coordinator.until_logged(last).await;
    }
    let log = coordinator.log();
    let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    let line = |message: &str, lock: &str| {
        let found = lines
            .iter()
            .find(|line| line["message"] == message && line["lock"] == lock);
        found.unwrap_or_else(|| panic!("no line says {message} of {lock}: {log}"))
    };
    let granted = line("granted", "build");
    assert_eq!(granted["level"], "DEBUG");
    assert_eq!(granted["mode"], "exclusive");
    assert!(granted["token"].is_u64() && granted["timestamp"].is_string());
    let session_digest = granted["session"].as_str().unwrap();
    assert_eq!(line("granted", "other")["trace_id"], TRACE);
    let lost = line("grant lost", "build");
    assert_eq!(
        (&lost["level"], &lost["session"]),
        (&"INFO".into(), &session_digest.into())
    );
    let audited = lines.iter().find(|line| line["target"] == "audit").unwrap();
    assert_eq!(
        (&audited["name"], &audited["reason"]),
        (&"build".into(), &"stuck".into())
    );
    for secret in [secret, "a-credential", "the-owner", &session.id()] {
        assert!(!log.contains(secret), "{secret} is in the log: {log}");
    }
}

#[tokio::test]
async fn a_client_without_credentials_cannot_fill_the_log_by_frames() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    // The acknowledgement of a ping that was not sent, and then a ping.
    const ACK: &[u8] = b"\0\0\x08\x06\x01\0\0\0\0nobodys!";
    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0answered";
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let mut stream = TcpStream::connect(coordinator.address()).await.unwrap();
    let frames = [PREFACE, SETTINGS, &ACK.repeat(100), PING].concat();
    stream.write_all(&frames).await.unwrap();
    let (mut read, mut buffer) = (Vec::new(), [0; 1024]);
    while !read.windows(8).any(|it| it == b"answered") {
        let count = stream.read(&mut buffer).await.unwrap();
        assert!(count > 0, "it is closed");
        read.extend_from_slice(&buffer[..count]);
    }
    assert_eq!(coordinator.log().matches("PING").count(), 0);
}
