//! Bearer tokens over TLS.

use lockkeeper_client::{Client, TlsFiles, Token};

use super::{Authority, eventually, try_acquire};
use crate::prelude::*;

const OLD: &str = "0123456789abcdef0123456789abcdef";
const NEW: &str = "fedcba9876543210fedcba9876543210";

#[tokio::test]
async fn a_token_lets_in_and_the_file_is_read_again_when_it_changes() {
    let authority = Authority::new();
    let file = authority.file("tokens", &format!("ci {OLD}\n"));
    let settings = authority
        .settings()
        .with("auth.token_file", &file.display().to_string());
    let coordinator = Coordinator::start(&settings).await;
    let channel = authority.connect(&coordinator, None).await.unwrap();
    let refused = async |token| {
        try_acquire(&channel, "a", "o", token)
            .await
            .err()
            .map(|it| it.code())
    };
    assert_eq!(refused(None).await, Some(Code::Unauthenticated));
    assert_eq!(refused(Some(NEW)).await, Some(Code::Unauthenticated));
    assert_eq!(refused(Some(OLD)).await, None);

    authority.file("tokens", "nonsense in one word\n");
    eventually("the broken file is noticed", || async {
        coordinator
            .log()
            .contains("the previous content stays in force")
    })
    .await;
    assert_eq!(refused(Some(OLD)).await, None);

    authority.file("tokens", &format!("ci {NEW}\n"));
    eventually("the new token is known", || async {
        refused(Some(NEW)).await.is_none()
    })
    .await;
    assert_eq!(refused(Some(OLD)).await, Some(Code::Unauthenticated));
    let log = coordinator.log();
    assert!(
        !log.contains(OLD) && !log.contains(NEW),
        "a token in the log"
    );
}

/// A token that is replaced at both ends is not the same at both for a while.
#[tokio::test]
async fn a_session_whose_token_is_refused_for_a_while_is_resumed_after_it() {
    let authority = Authority::new();
    let redis = RedisServer::start().await;
    let known = authority.file("tokens", &format!("ci {OLD}\n"));
    let settings = authority
        .settings()
        .with("store.url", &redis.url())
        .with("session.secret", "the same before and after a restart")
        .with("auth.token_file", &known.display().to_string())
        .with("store.key_prefix", "app:");
    let mut coordinator = Coordinator::start(&settings).await;
    let shown = authority.file("token", OLD);
    let client = Client::builder()
        .address(
            format!("https://localhost:{}", coordinator.address().port())
                .parse()
                .unwrap(),
        )
        .tls(TlsFiles {
            ca: Some(authority.file("trusted.crt", &authority.certificate)),
            ..TlsFiles::default()
        })
        .token(Token::File(shown))
        .build()
        .unwrap();
    let session = client.session().lease(Duration::from_secs(20));
    let session = session.open().await.unwrap();
    let guard = session.lock("a").acquire().await.unwrap();

    authority.file("token", NEW);
    coordinator.kill();
    coordinator.restart_on_same_address().await;
    eventually("it was refused", || async {
        coordinator.log().contains("\"result\":\"denied\"")
    })
    .await;
    authority.file("token", OLD);
    eventually("it was resumed", || async {
        coordinator.log().contains("session resumed")
    })
    .await;
    assert!(!guard.lost().is_cancelled());
    guard.release().await.unwrap();
    session.close().await.unwrap();
}
