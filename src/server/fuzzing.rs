//! The doors of both ports for `tests/fuzzing`, with the default settings.

use axum::{
    body::Body,
    extract::{ConnectInfo, Request},
    response::Response,
};
use bytes::Bytes;
use lockkeeper_access::Access;
use lockkeeper_coordinator::Coordinator;
use prometheus_client::registry::Registry;
use tower::ServiceExt as _;

use crate::{
    admin::{self, Admin},
    config::Settings,
    fleet::Fleet,
    grpc,
    hosts::AllowedHosts,
    layers::grpc_config,
    pages::Samples,
    probe::StoreProbe,
};

/// Serves a call of `Session` with this body until its end. Returns the body of the answer.
pub async fn session(coordinator: &Coordinator, body: Bytes) -> Bytes {
    let config = grpc_config(&Settings::default(), &Fleet::default(), &Samples::default());
    grpc::fuzzing::session(coordinator, &Access::open(), config, body).await
}

/// Answers a request on the port of clients.
pub async fn call(coordinator: &Coordinator, request: Request<Body>) -> Response {
    let services = grpc::services(
        coordinator,
        StoreProbe::new(coordinator.clone()),
        grpc_config(&Settings::default(), &Fleet::default(), &Samples::default()),
        &Access::open(),
        &grpc::Metrics::default(),
    );
    let service = services.expect("the descriptors are valid").service();
    let Ok(answer) = service.oneshot(request.map(tonic::body::Body::new)).await;
    answer.map(Body::new)
}

/// Answers a request on an admin port that allows forced releases, from this machine.
pub async fn admin(coordinator: &Coordinator, mut request: Request<Body>) -> Response {
    let config = admin::Config {
        allow_force_release: true,
        authenticates_metrics: false,
        hosts: AllowedHosts::new(&[], Some(([127, 0, 0, 1], 7626).into())),
        fleet: Fleet::default(),
        samples: Samples::default(),
    };
    let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 50_000));
    request.extensions_mut().insert(ConnectInfo(peer));
    let admin = Admin::new(
        coordinator.clone(),
        StoreProbe::new(coordinator.clone()),
        Access::open(),
        admin::Metrics::new(Registry::default()),
        config,
    );
    admin::fuzzing::answer(admin, request).await
}
