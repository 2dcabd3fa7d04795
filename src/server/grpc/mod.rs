//! The gRPC surface: proto in, proto out. This layer checks and converts requests and makes
//! statuses, and knows no store.

mod admin;
mod answers;
mod audit;
pub mod auth;
mod budgets;
mod call;
mod check;
pub mod coalesced_writes;
pub mod connect;
mod convert;
mod convert_admin;
mod convert_note;
mod convert_permits;
mod credentials;
mod election;
mod explain;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod health;
mod known_here;
mod latch;
pub mod layer;
pub mod listen;
mod lock;
mod lock_watch;
mod messages;
mod metrics;
mod multi;
mod notice;
mod outbound;
mod peer;
pub mod refusal;
pub mod router_bypass;
mod semaphore;
pub mod serve;
mod session;
mod spans;
mod status;
#[cfg(test)]
mod status_tests;
mod tickets;
mod viewer;
mod web;
mod yields;

pub use metrics::Metrics;
pub use serve::Services;

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Access;
use lockkeeper_api::pb::{
    self, election_service_server::ElectionServiceServer, latch_service_server::LatchServiceServer,
};
use lockkeeper_coordinator::Coordinator;
use lockkeeper_facades::Facades;
use tonic::{service::Routes, transport::Server};
use tower::{
    ServiceBuilder,
    layer::util::{Identity, Stack},
};

pub use peer::{Peer, Usage};

use self::check::CheckLayer;
use crate::{fleet::Fleet, hosts::AllowedHosts, pages::Samples, probe::StoreProbe};

/// The server's behaviour towards clients.
#[derive(Clone, Debug)]
pub struct Config {
    /// The interval of keepalive pings.
    pub keepalive_interval: Duration,
    /// How long a peer may take to answer a ping before its connection is closed.
    pub keepalive_timeout: Duration,
    /// When a connection is closed: it gets GOAWAY, and its streams end a little later.
    pub connection_age_max: Option<Duration>,
    /// The size of a client's message, in bytes.
    pub message_bytes_max: usize,
    /// The size of all messages together that have begun and are incomplete.
    pub unfinished_bytes_max: usize,
    /// Whether gRPC-Web is accepted, also over HTTP/1.1.
    pub grpc_web: bool,
    /// Whether HTTP/JSON is accepted, also over HTTP/1.1.
    pub http_json: bool,
    /// The hosts that pages of a browser may name; none: all.
    pub allowed_hosts: Option<AllowedHosts>,
    /// Concurrent calls on one connection.
    pub connection_streams_max: u32,
    /// Concurrent operations of one session that do not wait. Above it, the stream is not read
    /// until some are answered.
    pub operations_per_session_max: usize,
    /// The size of a call's headers, as HTTP/2 counts it.
    pub header_list_bytes_max: u32,
    /// The other coordinators.
    pub fleet: Fleet,
    /// What the charts of the console are drawn from.
    pub samples: Samples,
    /// The protocols of other systems.
    pub facades: Facades,
}

/// Calls that a client reset before they were accepted, and its protocol errors. Above either
/// number its connection is closed.
const PENDING_RESETS_MAX: usize = 20;
const LOCAL_ERRORS_MAX: usize = 1024;

/// The bytes that a client may send on one stream ahead of its reader: for a session that is held
/// up, about a thousand frames.
const STREAM_WINDOW: u32 = 64 << 10;

/// The least that an unread message counts. The HTTP/2 library takes a connection for abused when
/// their sum reaches half of the connection's window.
const UNREAD_MESSAGE: u32 = 256;

/// The layers of every request: what makes it one of gRPC, then metrics, then authentication, then
/// its site, then its body, then its end if it is refused meanwhile, then the route to its service.
pub type Layers = Stack<router_bypass::RouterBypassLayer, Stack<refusal::RefusalLayer, Middle>>;
type Middle = Stack<CheckLayer<connect::Translate>, Stack<CheckLayer<layer::FollowBody>, Outer>>;
type Outer = Stack<CheckLayer<web::SameSite>, Stack<CheckLayer<auth::Authenticate>, Outermost>>;
type Outermost = Stack<metrics::MetricsLayer, Stack<connect::ConnectLayer, Identity>>;

/// All services, ready to be served; their calls are counted.
pub fn services(
    coordinator: &Coordinator,
    probe: StoreProbe,
    config: Config,
    access: &Access,
    metrics: &Metrics,
) -> Result<Services, tonic_reflection::server::Error> {
    let config = Arc::new(config);
    let sizes = messages::Sizes::new(config.message_bytes_max);
    let budgets = budgets::Budgets::new(
        config.unfinished_bytes_max,
        sizes.largest(),
        metrics.budgets(),
    );
    let calls = call::Calls {
        coordinator: coordinator.clone(),
        access: access.clone(),
        metrics: metrics.clone(),
    };
    let admin = admin::service(&calls, &probe, &config);
    let lock = lock::LockService::new(calls.clone(), Arc::clone(&config));
    let lock = router_bypass::LockServer::new(lock).max_decoding_message_size(sizes.largest());
    let semaphore = semaphore::SemaphoreService {
        calls: calls.clone(),
    };
    let semaphore = pb::semaphore_service_server::SemaphoreServiceServer::new(semaphore)
        .max_decoding_message_size(config.message_bytes_max);
    let latch = latch::LatchService {
        calls: calls.clone(),
    };
    let latch = LatchServiceServer::new(latch).max_decoding_message_size(config.message_bytes_max);
    let mut routes = config
        .facades
        .routes(&calls.door(), config.message_bytes_max);
    let election = ElectionServiceServer::new(election::ElectionService { calls })
        .max_decoding_message_size(config.message_bytes_max);
    let admin = admin.max_decoding_message_size(config.message_bytes_max);
    let health = health::HealthService::server(probe, budgets.clone(), config.facades);
    routes = routes
        .add_service(lock.clone())
        .add_service(semaphore)
        .add_service(latch)
        .add_service(election)
        .add_service(admin)
        .add_service(health)
        .add_service(descriptors().build_v1()?)
        .add_service(descriptors().build_v1alpha()?);
    if config.grpc_web {
        routes = Routes::from(
            routes
                .into_axum_router()
                .layer(refusal::RefusalLayer)
                .layer(tonic_web::GrpcWebLayer::new()),
        );
    }
    // gRPC-Web must be translated first, by the routes.
    let direct = (!config.grpc_web).then_some(lock);
    let service = ServiceBuilder::new()
        .layer(translated(&config))
        .layer(metrics::MetricsLayer(metrics.clone()))
        .layer(CheckLayer(auth::Authenticate::new(access, &budgets)))
        .layer(CheckLayer(same_site(&config)))
        .layer(CheckLayer(layer::FollowBody { budgets, sizes }))
        .layer(CheckLayer(connect::Translate))
        .layer(refusal::RefusalLayer)
        .layer(router_bypass::RouterBypassLayer::new(direct))
        .service(routes.prepare());
    Ok(Services::new(server(&config), service, &config))
}

/// Whose pages may call.
fn same_site(config: &Config) -> web::SameSite {
    web::SameSite(config.allowed_hosts.clone().map(Arc::new))
}

/// What is accepted besides gRPC.
fn translated(config: &Config) -> connect::ConnectLayer {
    connect::ConnectLayer {
        http_json: config.http_json,
        terraform: config.facades.terraform.is_some(),
        grpc_web: config.grpc_web,
    }
}

/// The server's behaviour towards connections.
fn server(config: &Config) -> Server {
    let server = Server::builder()
        .http2_keepalive_interval(Some(config.keepalive_interval))
        .http2_keepalive_timeout(Some(config.keepalive_timeout))
        .max_concurrent_streams(config.connection_streams_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(connection_window(config.connection_streams_max))
        .http2_max_header_list_size(config.header_list_bytes_max)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS_MAX))
        .http2_max_local_error_reset_streams(Some(LOCAL_ERRORS_MAX));
    match config.connection_age_max {
        Some(age) => server.max_connection_age(age),
        None => server,
    }
}

/// Wide enough for the allowed number of concurrent calls.
fn connection_window(streams_max: u32) -> u32 {
    const LEAST: u32 = 1 << 20;
    const MOST: u32 = i32::MAX as u32;
    streams_max
        .saturating_mul(2 * UNREAD_MESSAGE)
        .clamp(LEAST, MOST)
}

/// The descriptors for clients without the proto files, including error details.
fn descriptors() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(pb::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
