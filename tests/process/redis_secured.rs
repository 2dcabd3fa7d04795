//! The Redis host against servers that ask for a password, or that speak TLS.

use std::net::Ipv4Addr;

use lockkeeper_store::host::{
    Call, HostError, Script, ScriptHost, Value, Wake,
    redis::{RedisConfig, TlsCertificates, connect},
    words,
};
use tokio::sync::mpsc;

use crate::prelude::*;
use crate::{steps::refusal_to_start, tls::Certificate};

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

/// A server that speaks TLS with a certificate, and wants to see one of its clients or not.
async fn tls_server(certificate: &Certificate, auth_clients: bool) -> (RedisServer, String) {
    let arguments = certificate.arguments(auth_clients);
    let server = RedisServer::start_with(&arguments.each_ref().map(String::as_str)).await;
    let port = server.tls_port().expect("it has a certificate");
    (server, format!("rediss://127.0.0.1:{port}"))
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
    let certificate = Certificate::of(&[Ipv4Addr::LOCALHOST]);
    let (_server, url) = tls_server(&certificate, false).await;
    let root = Some(std::fs::read(certificate.certificate()).expect("the certificate"));
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

#[tokio::test]
async fn mission_21_a_coordinator_shows_its_certificate_and_trusts_a_private_authority() {
    let own = Certificate::of(&[Ipv4Addr::LOCALHOST]);
    let (server, url) = tls_server(&own, true).await;
    let trusting = settings_on(&url).with("store.tls.ca_file", &own.certificate());
    let good = trusting
        .clone()
        .with("store.tls.certificate_file", &own.certificate())
        .with("store.tls.key_file", &own.key())
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

#[tokio::test]
async fn certificates_that_cannot_be_used_are_refused_with_key_and_file() {
    let own = Certificate::of(&[Ipv4Addr::LOCALHOST]);
    std::fs::write(own.file("nonsense.pem"), "nonsense").expect("written");
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
            .map(|(key, name)| (*key, own.file(name)))
            .collect();
        let files = files.iter().map(|(key, path)| (*key, path.as_str()));
        let settings: Vec<_> = std::iter::once(url).chain(files).collect();
        let (code, said) = refusal_to_start(&settings).await;
        assert_eq!(code, Some(78), "{said}");
        assert!(
            said.contains(&format!("{wrong}: {}", own.file(at_fault))),
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
