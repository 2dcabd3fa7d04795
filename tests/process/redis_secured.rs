//! The Redis host against servers that ask for a password, or that speak TLS.

use std::{path::Path, process::Command, sync::Arc};

use lockkeeper_store::host::{
    Call, HostError, Script, ScriptHost, Value, Wake,
    redis::{RedisConfig, TlsCertificates, connect},
    words,
};
use lockkeeper_testkit::prelude::*;
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::{
    client::{reason, try_request},
    coordinator::Coordinator,
    redis_server::{RedisServer, eventually},
    steps::{expect_serving, secs, settings_on},
};

static ONE: Script = Script::new("one", "return 1");

async fn outcome(config: &RedisConfig) -> Result<Value, HostError> {
    let (host, _wakes) = connect(config).expect("a good configuration");
    let outcome = host
        .eval(Call {
            script: &ONE,
            keys: words![],
            args: words![],
        })
        .await;
    if outcome.is_ok() {
        host.subscribe("channel").await.expect("subscribed");
    }
    outcome
}

/// Makes a certificate for this machine; the server's own, and what the client trusts.
fn make_certificate(directory: &Path) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args([
            "-nodes", "-days", "2", "-subj", "/CN=test", "-keyout", "key.pem",
        ])
        .args([
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-out",
            "certificate.pem",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(directory)
        .output()
        .expect("openssl is not installed: apt-get install openssl");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}

#[tokio::test]
async fn a_password_is_used_and_never_shown() {
    let server = RedisServer::start().await;
    server
        .command(&[
            "ACL",
            "SETUSER",
            "app",
            "on",
            ">right@horse",
            "~*",
            "&*",
            "+@all",
        ])
        .await;
    let url = |password| format!("redis://app:{password}@127.0.0.1:{}", server.port());
    let config = |password| RedisConfig {
        url: url(password),
        ..RedisConfig::default()
    };

    assert_eq!(outcome(&config("right%40horse")).await, Ok(Value::Int(1)));
    match outcome(&config("wrong-horse")).await {
        Err(HostError::Unavailable(why)) => {
            assert!(why.contains("WRONGPASS"), "{why}");
            assert!(!why.contains("horse"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn few_permissions_are_enough() {
    let server = RedisServer::start().await;
    let user = ["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*"];
    let allowed = ["+evalsha", "+eval", "+subscribe", "+unsubscribe", "+ping"];
    server.command(&[&user[..], &allowed[..]].concat()).await;
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    assert_eq!(
        outcome(&RedisConfig {
            url,
            ..RedisConfig::default()
        })
        .await,
        Ok(Value::Int(1))
    );
}

/// A connection of the user `app`, which may use these channels.
async fn as_user(
    server: &RedisServer,
    channels: &str,
) -> (Arc<dyn ScriptHost>, mpsc::Receiver<Wake>) {
    let user = [
        "ACL", "SETUSER", "app", "on", ">secret", "~*", channels, "+@all",
    ];
    server.command(&user).await;
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let config = RedisConfig {
        url,
        ..RedisConfig::default()
    };
    connect(&config).expect("good")
}

#[tokio::test]
async fn a_refused_subscription_is_told() {
    let server = RedisServer::start().await;
    let (host, mut wakes) = as_user(&server, "&allowed").await;
    host.subscribe("allowed").await.expect("subscribed");
    assert!(matches!(
        host.subscribe("other").await,
        Err(HostError::Rejected { code, .. }) if code == "NOPERM"
    ));

    server
        .command(&["ACL", "SETUSER", "app", "allchannels"])
        .await;
    // The server's list of channels, because a published message could arrive before the gap.
    eventually("it is subscribed after all", || async {
        let channels = server.command(&["PUBSUB", "CHANNELS", "other"]).await;
        matches!(&channels, deadpool_redis::redis::Value::Array(channels) if channels.len() == 1)
    })
    .await;
    assert_eq!(wakes.recv().await, Some(Wake::Gap));
}

#[tokio::test]
async fn channels_come_back_though_others_are_refused() {
    let server = RedisServer::start().await;
    let (host, mut wakes) = as_user(&server, "&*").await;
    for channel in ["allowed", "also-allowed", "other"] {
        host.subscribe(channel).await.expect("subscribed");
    }

    // Redis ends the connection of who is subscribed to what is no longer allowed.
    let fewer = ["resetchannels", "&allowed", "&also-allowed"];
    let fewer = [&["ACL", "SETUSER", "app"], &fewer[..]].concat();
    server.command(&fewer).await;
    assert_eq!(wakes.recv().await, Some(Wake::Gap));
    let channels = server.command(&["PUBSUB", "CHANNELS", "*allowed"]).await;
    let deadpool_redis::redis::Value::Array(channels) = channels else {
        panic!("{channels:?}");
    };
    assert_eq!(channels.len(), 2, "both are back before the gap");
}

#[tokio::test]
async fn tls_works_and_strangers_are_not_trusted() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = TempDir::new().expect("a temporary directory");
    make_certificate(directory.path());
    let file = |name| directory.path().join(name).to_string_lossy().into_owned();
    let (certificate, key) = (file("certificate.pem"), file("key.pem"));
    let server = RedisServer::start_with(&[
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &certificate,
        "--tls-auth-clients",
        "no",
    ])
    .await;

    let url = tls_url(&server);
    let root = Some(std::fs::read(&certificate).expect("the certificate"));
    let tls = TlsCertificates { root, client: None };
    let config = RedisConfig {
        url: url.clone(),
        tls,
        ..RedisConfig::default()
    };
    assert_eq!(outcome(&config).await, Ok(Value::Int(1)));

    let stranger = RedisConfig {
        url,
        ..RedisConfig::default()
    };
    assert!(matches!(
        outcome(&stranger).await,
        Err(HostError::Unavailable(_))
    ));
}

/// A server that wants to see a certificate, and the folder with its own, which is its clients'
/// too.
async fn suspicious_server() -> (RedisServer, String, TempDir) {
    let directory = TempDir::new().expect("a temporary directory");
    make_certificate(directory.path());
    let file = |name| directory.path().join(name).to_string_lossy().into_owned();
    let certificate = file("certificate.pem");
    let server = RedisServer::start_with(&[
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &file("key.pem"),
        "--tls-ca-cert-file",
        &certificate,
        "--tls-auth-clients",
        "yes",
    ])
    .await;
    let url = tls_url(&server);
    (server, url, directory)
}

fn tls_url(server: &RedisServer) -> String {
    let port = server.tls_port().expect("it has a certificate");
    format!("rediss://127.0.0.1:{port}")
}

#[tokio::test]
async fn mission_21_a_coordinator_shows_its_certificate_and_trusts_a_private_authority() {
    let (server, url, directory) = suspicious_server().await;
    let file = |name| directory.path().join(name).to_string_lossy().into_owned();
    let (certificate, key) = (file("certificate.pem"), file("key.pem"));
    let trusting = settings_on(&url).with("store.tls.ca_file", &certificate);
    let good = trusting
        .clone()
        .with("store.tls.certificate_file", &certificate)
        .with("store.tls.key_file", &key)
        .with("store.replica_ack_timeout", "100ms")
        .with("store.client_name", "locks-of-ours");
    let coordinator = Coordinator::start(&good).await;
    expect_serving(&coordinator).await;
    let clients = server.text(&["CLIENT", "LIST"]).await;
    assert!(clients.contains("name=locks-of-ours"), "{clients}");
    // The connections for counting replicas are made in the same way.
    let mut client = coordinator.client().await;
    let request = try_request("build", "x").acked_by(1);
    let refused = client.try_with(request).await.unwrap_err();
    assert_eq!(refused.message(), "0 of 1 replicas acknowledged");

    for without in [settings_on(&url), trusting] {
        let coordinator = Coordinator::start(&without).await;
        let mut client = coordinator.client().await;
        let refused = client.try_acquire("build", "x", secs(9)).await.unwrap_err();
        assert_eq!(reason(&refused), "STORE_UNAVAILABLE", "{refused}");
    }
}

/// What the coordinator says instead of starting, and how it ends.
async fn refusal_to_start(settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let settings = settings.iter().map(|(key, value)| format!("{key}={value}"));
    let arguments = settings.flat_map(|setting| ["--set".to_owned(), setting]);
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_lockkeeper"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(arguments)
        .kill_on_drop(true)
        .output()
        .await
        .expect("it runs");
    let said = String::from_utf8(output.stderr).expect("text");
    (output.status.code(), said)
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_refused_with_key_and_file() {
    let directory = TempDir::new().expect("a temporary directory");
    make_certificate(directory.path());
    let file = |name| directory.path().join(name).to_string_lossy().into_owned();
    std::fs::write(file("nonsense.pem"), "nonsense").expect("written");
    let url = ("store.url", "rediss://:tuna@localhost:1");
    let (certificate, key) = ("store.tls.certificate_file", "store.tls.key_file");
    for (settings, wrong) in [
        (
            vec![("store.tls.ca_file", "missing.pem")],
            "store.tls.ca_file",
        ),
        (
            vec![("store.tls.ca_file", "nonsense.pem")],
            "store.tls.ca_file",
        ),
        (vec![("store.tls.ca_file", "key.pem")], "store.tls.ca_file"),
        (
            vec![(certificate, "key.pem"), (key, "key.pem")],
            certificate,
        ),
        (
            vec![(certificate, "certificate.pem"), (key, "certificate.pem")],
            key,
        ),
    ] {
        let at_fault = settings.iter().find(|(key, _)| *key == wrong).unwrap().1;
        let files: Vec<_> = settings
            .iter()
            .map(|(key, name)| (*key, file(name)))
            .collect();
        let files = files.iter().map(|(key, path)| (*key, path.as_str()));
        let settings: Vec<_> = std::iter::once(url).chain(files).collect();
        let (code, said) = refusal_to_start(&settings).await;
        assert_eq!(code, Some(78), "{said}");
        assert!(
            said.contains(&format!("{wrong}: {}", file(at_fault))),
            "{said}"
        );
        assert!(!said.contains("tuna"), "{said}");
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_used_is_refused_with_its_part() {
    for (url, part) in [
        ("redis://:tuna@localhost/x", "database"),
        ("redis://:tuna@localhost:99999", "port"),
        ("redis://:tu/na@localhost", "password"),
        ("rediss://localhost/#insecure", "fragment"),
        ("redis+sentinel://:tuna@localhost", "service"),
        ("redis+sentinel://localhost/s?tuna=1", "query"),
    ] {
        let (code, said) = refusal_to_start(&[("store.url", url)]).await;
        assert_eq!(code, Some(78), "{url}: {said}");
        let expected = format!("store.url: the {part} in the store's URL is wrong");
        assert!(said.contains(&expected), "{url}: {said}");
        assert!(!said.contains("tuna"), "{said}");
    }
}
