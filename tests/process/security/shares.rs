//! The share of one identity in the coordinator's limits.

use std::fs;

use lockkeeper_api::pb::lock_service_client::LockServiceClient;
use tonic::{Request, transport::Endpoint};

use crate::prelude::*;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// How many sessions one identity can open.
async fn sessions(settings: Settings) -> usize {
    let folder = TempDir::new().unwrap();
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, format!("known {TOKEN}\n")).unwrap();
    let settings = settings
        .with("auth.token_file", &tokens.display().to_string())
        .with("limits.sessions_max", "12");
    let coordinator = Coordinator::start(&settings).await;
    let endpoint = Endpoint::from_shared(coordinator.url()).unwrap();
    let mut api = LockServiceClient::new(endpoint.connect().await.unwrap());
    let mut open = Vec::new();
    for _ in 0..20 {
        let first = pb::SessionRequest {
            op_id: 1,
            request: Some(pb::session_request::Request::Open(
                pb::OpenSession::default(),
            )),
            ..Default::default()
        };
        let frames =
            futures::StreamExt::chain(futures::stream::iter([first]), futures::stream::pending());
        let mut request = Request::new(frames);
        let header = format!("Bearer {TOKEN}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
        let mut frames = api.session(request).await.unwrap().into_inner();
        if frames.message().await.is_ok_and(|it| it.is_some()) {
            open.push(frames);
        }
    }
    open.len()
}

#[tokio::test]
async fn an_identity_has_a_quarter_unless_the_operator_says_otherwise() {
    let settings = || Settings::on("embedded:");
    assert_eq!(sessions(settings()).await, 3);
    let all = settings().with("access.quotas.sessions", "12");
    assert_eq!(sessions(all).await, 12);
}
