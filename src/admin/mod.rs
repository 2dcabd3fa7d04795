//! The admin port: HTTP for people and for machines that watch the process. Read-only, and apart from the port that clients use.

mod metrics;

pub use metrics::Metrics;

use std::future::Future;

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::net::TcpListener;

use crate::{access::Access, coordinator::Coordinator};

/// What the pages are made from.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The coordinator that is shown.
    pub coordinator: Coordinator,
    /// Who may see it.
    pub access: Access,
    /// What is counted.
    pub metrics: Metrics,
}

/// Serves the admin port until `stop` resolves. Fails if the listener does.
pub async fn serve(
    admin: Admin,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, routes(admin))
        .with_graceful_shutdown(stop)
        .await
}

/// `/livez`: the process serves. `/readyz`: it takes new work, so it does not drain and its store answers. `/metrics`: see `metrics.rs`.
fn routes(admin: Admin) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics::show))
        .with_state(admin)
}

async fn ready(State(admin): State<Admin>) -> (StatusCode, &'static str) {
    if admin.coordinator.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    match admin.coordinator.probe().await {
        Ok(()) => (StatusCode::OK, "ok\n"),
        Err(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the store does not answer\n",
        ),
    }
}
