//! Where a coordinator listens, what it refuses to, and who gets no further than a connection.

use std::os::unix::fs::PermissionsExt as _;

use lockkeeper_api::pb::ListSessionsRequest;
use lockkeeper_client::Client;
use tonic::transport::Endpoint;

use super::{PATIENCE, try_acquire};
use crate::prelude::*;
use crate::steps::refusal_to_start;

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused_by_the_names_of_the_keys() {
    let reachable = ("server.listen", "0.0.0.0:0");
    let (code, said) = refusal_to_start(&[reachable]).await;
    assert_eq!(code, Some(78), "{said}");
    for key in [
        "server.listen",
        "auth.token_file",
        "auth.jwks_file",
        "server.tls.client_ca_file",
        "server.allow_unauthenticated",
    ] {
        assert!(said.contains(key), "{key}: {said}");
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, "ci 0123456789abcdef\n").unwrap();
    let tokens = ("auth.token_file", file.to_str().unwrap());
    let (code, said) = refusal_to_start(&[reachable, tokens]).await;
    assert_eq!(code, Some(78), "{said}");
    assert!(
        said.contains("plain text") && said.contains("auth.allow_plaintext"),
        "{said}"
    );
    let (code, said) = refusal_to_start(&[("auth.token_file", "/nowhere/tokens")]).await;
    assert_eq!(code, Some(78), "{said}");
    assert!(
        said.contains("auth") && said.contains("/nowhere/tokens"),
        "{said}"
    );
}

#[tokio::test]
async fn a_unix_socket_serves_under_its_mode_and_goes_away() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("lockkeeper.sock");
    let settings = Settings::on("embedded:")
        .with("server.uds_path", &path.display().to_string())
        .with("server.uds_mode", "0660")
        // With a quota callers of the socket have names.
        .with("access.quotas.sessions", "10");
    let coordinator = Coordinator::start(&settings).await;
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let endpoint = Endpoint::from_shared(format!("unix://{}", path.display())).unwrap();
    let channel = endpoint.connect().await.unwrap();
    assert!(try_acquire(&channel, "a", "o", None).await.unwrap());
    // Over the port nobody has a name, and none is asked for here.
    let refused = coordinator
        .client()
        .await
        .try_acquire("a", "o", Duration::from_secs(30))
        .await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::Unauthenticated);
    drop(channel);
    coordinator.signal(Signal::SIGTERM);
    coordinator.exit().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_session_over_a_unix_socket_is_listed_as_one() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("lockkeeper.sock").display().to_string();
    let settings = Settings::on("embedded:").with("server.uds_path", &path);
    let _coordinator = Coordinator::start(&settings).await;
    let client = Client::connect(&format!("unix://{path}")).await.unwrap();
    let session = client.session().open().await.unwrap();
    let mut admin = client.admin().await.unwrap();
    let sessions = admin.list_sessions(ListSessionsRequest::default());
    let sessions = sessions.await.unwrap().into_inner().sessions;
    assert_eq!(sessions[0].peer_address, "unix");
    session.close().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_does_not_begin_as_http_2_does_is_closed() {
    let settings = Settings::on("embedded:")
        .with("server.handshake_timeout", "500ms")
        .with("server.http_json", "false");
    let coordinator = Coordinator::start(&settings).await;
    let mut silent = TcpStream::connect(coordinator.address()).await.unwrap();
    let begun = Instant::now();
    let closed = tokio::time::timeout(PATIENCE, silent.read_u8()).await;
    assert!(closed.expect("it is closed").is_err());
    assert!(
        begun.elapsed() >= Duration::from_millis(450),
        "{:?}",
        begun.elapsed()
    );
    let mut other = TcpStream::connect(coordinator.address()).await.unwrap();
    other
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let closed = tokio::time::timeout(PATIENCE, other.read_u8()).await;
    assert!(closed.expect("it is closed").is_err());
    // A connection that is used is not closed by the same limit.
    let mut client = coordinator.client().await;
    let mut session = client.open().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    session.acquire("a").await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_those_there_are_go_on() {
    let settings = Settings::on("embedded:").with("server.connections_max", "2");
    let coordinator = Coordinator::start(&settings).await;
    let mut client = coordinator.client().await;
    let tried = client.try_acquire("a", "o", Duration::from_secs(30)).await;
    assert!(tried.unwrap().acquired);
    let second = TcpStream::connect(coordinator.address()).await.unwrap();
    let mut third = TcpStream::connect(coordinator.address()).await.unwrap();
    let closed = tokio::time::timeout(PATIENCE, third.read_u8()).await;
    assert!(closed.expect("it is closed").is_err());
    assert!(client.release("a", "o").await.unwrap().released);
    drop(second);
}
