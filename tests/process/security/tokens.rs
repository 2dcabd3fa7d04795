//! Bearer tokens over TLS.

use tonic::Code;

use super::{Authority, eventually, try_acquire};
use crate::coordinator::Coordinator;

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
            .contains("what was read before stays in force")
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
