//! The doors of this layer for `tests/fuzzing`.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::Request as HttpRequest;
use lockkeeper_access::{Access, Identity};
use lockkeeper_coordinator::{Coordinator, Lease, Operation, Owner, SessionId};
use prost::Message as _;
use tonic::metadata::MetadataMap;
use tower::ServiceExt as _;

use super::{
    Config, Metrics,
    call::{Calls, within},
    convert::{self, Requests},
    lock::LockService,
    pb::{self, lock_service_server::LockServiceServer, session_request::Request},
    session::frames::operation,
};

/// The longest deadline of a call, in seconds: 8 digits of hours.
const LONGEST: u64 = 99_999_999 * 3600;

/// Converts a frame of a session's stream, given as bytes, or refuses it. The same for the first
/// frame of a stream.
pub fn request(
    coordinator: &Coordinator,
    access: &Access,
    session: Option<&SessionId>,
    bytes: &[u8],
) {
    let Ok(frame) = pb::SessionRequest::decode(bytes) else {
        return;
    };
    let account = access.account(Identity::anonymous());
    let own = session.cloned().map(Owner::of_session);
    let requests = Requests {
        coordinator,
        access,
        account: &account,
        own: own.as_ref(),
    };
    match frame.request {
        Some(Request::Open(open)) => {
            let _ = convert::on_disconnect(open.on_disconnect);
            let _ = requests.lease(open.lease);
        }
        Some(Request::Resume(resume)) => {
            let Some(id) = SessionId::parse(&resume.session_id) else {
                return;
            };
            assert_eq!(id.as_str(), resume.session_id);
            let _ = requests.resumed(&id, resume.grants);
            let _ = requests.resumed_permits(&id, resume.permits);
        }
        request => {
            if let Ok(operation) = operation(&requests, request.as_ref()) {
                check(coordinator, &operation);
            }
        }
    }
}

/// Accepted operations respect the limits.
fn check(coordinator: &Coordinator, operation: &Operation) {
    let limits = coordinator.limits();
    if let Operation::Acquire(it) | Operation::TryAcquire(it) = operation {
        let name = it.name.store_key();
        assert!(!name.is_empty() && name.len() <= limits.name_bytes_max);
        assert!(it.owner.label.len() <= limits.owner_bytes_max);
        let lease = it.lease.map(Lease::get);
        assert!(lease.is_none_or(|it| it >= limits.lease_min && it <= limits.lease_max));
    }
}

/// Computes the longest wait under a call's `grpc-timeout`.
pub fn grpc_timeout(bytes: &[u8]) {
    let Ok(value) = bytes.try_into() else { return };
    let mut metadata = MetadataMap::new();
    metadata.insert("grpc-timeout", value);
    assert!(within(None, &metadata).is_none_or(|it| it.as_secs() <= LONGEST));
}

/// Serves a call of `Session` with this body, in gRPC's framing, until its end. Returns the body of
/// the answer.
pub async fn session(
    coordinator: &Coordinator,
    access: &Access,
    config: Config,
    body: Bytes,
) -> Bytes {
    let calls = Calls {
        coordinator: coordinator.clone(),
        access: access.clone(),
        metrics: Metrics::default(),
    };
    let service = LockServiceServer::new(LockService::new(calls, Arc::new(config)));
    let request = HttpRequest::post("/lockkeeper.v1.LockService/Session")
        .header("content-type", "application/grpc")
        .body(Body::from(body))
        .expect("a request");
    let Ok(answer) = service.oneshot(request).await;
    let body = Body::new(answer.into_body());
    to_bytes(body, usize::MAX).await.unwrap_or_default()
}
