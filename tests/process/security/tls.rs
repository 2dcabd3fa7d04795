//! Certificates: of the server, of clients, wrong ones, old ones and new ones.

use lockkeeper_client::TlsFiles;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Authority, Issued, eventually, expired, try_acquire};
use crate::prelude::*;

/// Whether somebody with this certificate gets as far as an answer. With TLS 1.3 a client learns
/// only then that its certificate was refused.
async fn is_let_in(
    authority: &Authority,
    coordinator: &Coordinator,
    shown: Option<&Issued>,
) -> bool {
    match authority.connect(coordinator, shown).await {
        Ok(channel) => try_acquire(&channel, "probe", "p", None).await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn a_client_that_trusts_the_authority_is_served_and_others_are_not() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let coordinator = Coordinator::start(&authority.settings()).await;
    let channel = authority.connect(&coordinator, None).await.unwrap();
    assert!(try_acquire(&channel, "a", "o", None).await.unwrap());
    assert!(stranger.connect(&coordinator, None).await.is_err());
    let plain = tonic::transport::Endpoint::from_shared(coordinator.url()).unwrap();
    if let Ok(channel) = plain.connect().await {
        assert!(try_acquire(&channel, "a", "o", None).await.is_err());
    }
}

#[tokio::test]
async fn with_mutual_tls_only_good_certificates_are_let_in_and_say_who_calls() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let coordinator = Coordinator::start(&authority.mutual()).await;
    let alice = authority.client("spiffe://prod/alice");
    let mallory = authority.client("spiffe://prod/mallory");
    let old = authority.issue(expired);
    let foreign = stranger.client("spiffe://prod/alice");
    // Without one last: the first reason of an address is the one that is audited.
    for (shown, what) in [
        (Some(&old), "old"),
        (Some(&foreign), "foreign"),
        (None, "none"),
    ] {
        assert!(!is_let_in(&authority, &coordinator, shown).await, "{what}");
    }
    let of_alice = authority.connect(&coordinator, Some(&alice)).await.unwrap();
    assert!(try_acquire(&of_alice, "a", "ci", None).await.unwrap());
    let of_mallory = authority.connect(&coordinator, Some(&mallory)).await;
    let mut mallory = Client::new(of_mallory.unwrap(), CancellationToken::new());
    assert!(mallory.release("a", "ci").await.is_err());
    let seen = mallory.describe("a").await;
    assert_ne!(seen.holders[0].owner, "ci");
    let mut alice = Client::new(of_alice, CancellationToken::new());
    assert_eq!(alice.describe("a").await.holders[0].owner, "ci");
    assert!(alice.release("a", "ci").await.unwrap().released);
    eventually("whom the refused ones name is audited", || async {
        let log = coordinator.log();
        let mut lines = log.lines().filter(|line| line.contains("TlsHandshake"));
        lines.any(|line| line.contains("client certificate of") && line.contains("denied"))
    })
    .await;
}

/// The words of the client and of the command line when they cannot open a session or ask.
async fn refusals(address: &str, authority: &Authority) -> [String; 2] {
    let ca = authority.file("trusted.crt", &authority.certificate);
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let command = command
        .args(["describe", "a", "--server", address, "--ca-file"])
        .arg(&ca);
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    let tls = TlsFiles {
        ca: Some(ca),
        ..TlsFiles::default()
    };
    let client = lockkeeper_client::Client::builder().tls(tls);
    let client = client.endpoint(address).unwrap().build().unwrap();
    let refused = client.session().open().await.unwrap_err();
    let said = String::from_utf8(output.stderr).unwrap();
    [said, refused.to_string()]
}

/// What a command says and how it exits without a client certificate, or with a wrong one.
async fn denied(
    authority: &Authority,
    coordinator: &Coordinator,
    command: &str,
    shown: Option<&Issued>,
) -> (Option<i32>, String) {
    let lockkeeper = env!("CARGO_BIN_EXE_lockkeeper");
    let mut asks = tokio::process::Command::new(lockkeeper);
    let (command, rest) = command.split_once(" -- ").unwrap_or((command, ""));
    let server = format!("https://localhost:{}", coordinator.address().port());
    asks.args(command.split(' ')).args(["--server", &server]);
    let trusted = authority.file("trusted.crt", &authority.certificate);
    asks.arg("--ca-file").arg(trusted);
    if let Some(shown) = shown {
        let certificate = authority.file("shown.crt", &shown.certificate);
        asks.arg("--certificate-file").arg(certificate);
        let key = authority.file("shown.key", &shown.key);
        asks.arg("--key-file").arg(key);
    }
    if !rest.is_empty() {
        asks.arg("--").arg(rest);
    }
    let output = asks.output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

#[tokio::test]
async fn a_command_without_a_client_certificate_names_the_flag() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let coordinator = Coordinator::start(&authority.mutual()).await;
    let foreign = stranger.client("spiffe://prod/alice");
    // With TLS 1.3 the refusal races with the first call.
    for command in ["try-acquire a"; 6]
        .into_iter()
        .chain(["describe a", "health", "run a -- true"])
    {
        for shown in [None, Some(&foreign)] {
            let (exit, said) = denied(&authority, &coordinator, command, shown).await;
            assert_eq!(exit, Some(69), "{command}: {said}");
            let hint = "it may require a client certificate, or not accept this one";
            assert!(said.contains(hint), "{command}: {said}");
            assert!(!said.contains("retry with"), "{command}: {said}");
        }
    }
}

#[tokio::test]
async fn a_client_without_a_certificate_is_audited_where_one_is_required() {
    let authority = Authority::new();
    let coordinator = Coordinator::start(&authority.mutual()).await;
    assert!(!is_let_in(&authority, &coordinator, None).await);
    eventually("the handshake is audited", || async {
        let log = coordinator.log();
        let mut lines = log.lines().filter(|line| line.contains("TlsHandshake"));
        lines.any(|line| line.contains("no client certificate") && line.contains("denied"))
    })
    .await;
}

/// Something that answers in another protocol, and its address as one of TLS.
async fn http_1() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = spawn_detached("http-1", async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let refused = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(refused).await.unwrap();
            // Until the client has read it.
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        }
    });
    (format!("https://localhost:{port}"), server)
}

#[tokio::test]
async fn who_asks_with_or_without_tls_where_it_is_the_other_way_is_told_so() {
    let authority = Authority::new();
    let secured = Coordinator::start(&authority.settings()).await;
    for said in refusals(&secured.url(), &authority).await {
        let hint = "the server uses TLS: use https://";
        assert!(said.contains(hint), "{said}");
    }
    let (plain, server) = http_1().await;
    for said in refusals(&plain, &authority).await {
        let hint = "the server does not use TLS: use http://";
        assert!(said.contains(hint), "{said}");
    }
    // What is known is told, and nothing is guessed.
    let stranger = Authority::new();
    let secured = format!("https://localhost:{}", secured.address().port());
    for said in refusals(&secured, &stranger).await {
        assert!(said.contains("certificate"), "{said}");
        assert!(!said.contains("the address begins"), "{said}");
    }
    server.abort();
    let _ = server.await;
    for said in refusals(&plain, &authority).await {
        assert!(!said.contains("the address begins"), "{said}");
    }
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_open_streams_live() {
    let (authority, next) = (Authority::new(), Authority::new());
    let coordinator = Coordinator::start(&authority.settings()).await;
    let channel = authority.connect(&coordinator, None).await.unwrap();
    let mut client = Client::new(channel, CancellationToken::new());
    let mut session = client.open_with(pb::OpenSession::default()).await.unwrap();
    session.acquire("a").await;

    // Half of a change: a key of another certificate. What was there before goes on.
    authority.file("tls.key", &next.issue(|_| {}).key);
    eventually("the broken files are noticed", || async {
        coordinator
            .log()
            .contains("the previous content stays in force")
    })
    .await;
    assert!(authority.connect(&coordinator, None).await.is_ok());

    authority.install(&next.issue(|_| {}));
    eventually("new connections get the new certificate", || async {
        next.connect(&coordinator, None).await.is_ok()
    })
    .await;
    assert!(authority.connect(&coordinator, None).await.is_err());
    assert_eq!(session.acquire("a").await.hold_count, 2);
    let tried = client.try_acquire("b", "o", Duration::from_secs(30)).await;
    assert!(tried.unwrap().acquired, "the old connection still serves");
}

#[tokio::test]
async fn a_new_client_authority_is_for_new_connections_too() {
    let (authority, next) = (Authority::new(), Authority::new());
    let coordinator = Coordinator::start(&authority.mutual()).await;
    let (old, new) = (
        authority.client("spiffe://a/x"),
        next.client("spiffe://b/x"),
    );
    assert!(is_let_in(&authority, &coordinator, Some(&old)).await);
    assert!(!is_let_in(&authority, &coordinator, Some(&new)).await);
    authority.file("ca.crt", &next.certificate);
    eventually("the new authority is trusted", || async {
        is_let_in(&authority, &coordinator, Some(&new)).await
    })
    .await;
    assert!(!is_let_in(&authority, &coordinator, Some(&old)).await);
}
