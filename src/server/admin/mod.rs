//! The admin port: HTTP for people and monitoring, apart from the clients' port. Read-only, unless
//! the configuration allows forced releases.

mod api;
mod console;
mod failure;
mod guard;
mod json;
mod metrics;
mod repeats;
mod state;

pub use self::{metrics::Metrics, state::Admin};

use std::{future::Future, net::SocketAddr, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    middleware,
    response::Response,
    routing::get,
};
use tokio::net::TcpListener;

// === impl Admin ===

/// The longest wait for the probe that refreshes the metrics; `store.call_timeout` if that is
/// shorter.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves the admin port until `stop` resolves. Fails if the listener does.
pub async fn serve(
    mut admin: Admin,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    admin.is_loopback = listener.local_addr()?.ip().is_loopback();
    let routes = routes(admin).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, routes)
        .with_graceful_shutdown(stop)
        .await
}

/// `/livez`: the process serves. `/readyz`: it accepts new work, so it does not drain and its store
/// answers and takes writes. `/metrics`: see `metrics.rs`. Besides them the console and its JSON.
fn routes(admin: Admin) -> Router {
    let guarded = middleware::from_fn_with_state(admin.clone(), guard::guard);
    let console = console::routes().merge(api::routes()).layer(guarded);
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(show_metrics))
        .merge(console)
        .with_state(admin)
}

async fn ready(State(admin): State<Admin>) -> (StatusCode, String) {
    if admin.coordinator.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    match admin.coordinator.ready().await {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

async fn show_metrics(State(admin): State<Admin>, headers: HeaderMap) -> Response {
    let _ = tokio::time::timeout(PROBE_TIMEOUT, admin.coordinator.probe()).await;
    admin.coordinator.refresh_metrics();
    admin.metrics.show(&headers)
}
