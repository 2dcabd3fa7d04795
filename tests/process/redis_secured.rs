//! The Redis host against servers that ask for a password, or that speak TLS.

use std::{path::Path, process::Command};

use lockkeeper::host::{
    Call, HostError, Script, Value,
    redis::{RedisConfig, TlsCertificates, connect},
};
use tempfile::TempDir;

use crate::redis_server::{RedisServer, eventually, free_port};

static ONE: Script = Script::new("one", "return 1");

async fn outcome(config: &RedisConfig) -> Result<Value, HostError> {
    let (host, _wakes) = connect(config).expect("a good configuration");
    let outcome = host
        .eval(Call {
            script: &ONE,
            keys: vec![],
            args: vec![],
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

#[tokio::test]
async fn a_refused_subscription_is_told() {
    let server = RedisServer::start().await;
    let user = [
        "ACL", "SETUSER", "app", "on", ">secret", "~*", "&allowed", "+@all",
    ];
    server.command(&user).await;
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let (host, mut wakes) = connect(&RedisConfig {
        url,
        ..RedisConfig::default()
    })
    .expect("good");
    host.subscribe("allowed").await.expect("subscribed");
    assert!(matches!(
        host.subscribe("other").await,
        Err(HostError::Rejected { code, .. }) if code == "NOPERM"
    ));

    server
        .command(&["ACL", "SETUSER", "app", "allchannels"])
        .await;
    eventually("it is subscribed after all", || async {
        server.text(&["PUBLISH", "other", "1"]).await == "1"
    })
    .await;
    assert_eq!(wakes.recv().await, Some(lockkeeper::host::Wake::Gap));
}

#[tokio::test]
async fn tls_works_and_strangers_are_not_trusted() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = TempDir::new().expect("a temporary directory");
    make_certificate(directory.path());
    let file = |name| directory.path().join(name).to_string_lossy().into_owned();
    let (port, certificate, key) = (free_port(), file("certificate.pem"), file("key.pem"));
    let _server = RedisServer::start_with(&[
        "--tls-port",
        &port.to_string(),
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

    let url = format!("rediss://127.0.0.1:{port}");
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
