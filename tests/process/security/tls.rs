//! Certificates: of the server, of clients, wrong ones, old ones and new ones.

use std::time::Duration;

use lockkeeper::grpc::pb;
use tokio_util::sync::CancellationToken;

use super::{Authority, Issued, eventually, expired, try_acquire};
use crate::{client::Client, coordinator::Coordinator};

/// Whether somebody with this certificate gets as far as an answer. With TLS 1.3 a client learns only then that its certificate was refused.
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
    for (shown, what) in [
        (None, "none"),
        (Some(&old), "old"),
        (Some(&foreign), "foreign"),
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
            .contains("what was read before stays in force")
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
