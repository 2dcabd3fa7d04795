//! The admin port: HTTP for people and for machines that watch the process, apart from the port
//! that clients use. Read-only, unless the configuration lets it take locks away.

mod api;
mod console;
mod failure;
mod guard;
mod json;
mod metrics;

pub use metrics::Metrics;

use std::{future::Future, net::SocketAddr, sync::Arc};

use axum::{Router, extract::State, http::StatusCode, middleware, routing::get};
use tokio::net::TcpListener;

use guard::Repeats;
use lockkeeper_access::Access;
use lockkeeper_coordinator::Coordinator;

/// What the pages are made from.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The coordinator that is shown.
    pub coordinator: Coordinator,
    /// Who may see it.
    pub access: Access,
    /// What is counted.
    pub metrics: Metrics,
    allow_force_release: bool,
    is_loopback: bool,
    repeats: Arc<Repeats>,
}

// === impl Admin ===

impl Admin {
    /// Pages about a coordinator, for those whom `access` lets see them.
    pub fn new(
        coordinator: Coordinator,
        access: Access,
        metrics: Metrics,
        allow_force_release: bool,
    ) -> Self {
        Self {
            coordinator,
            access,
            metrics,
            allow_force_release,
            is_loopback: false,
            repeats: Arc::default(),
        }
    }
}

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

/// `/livez`: the process serves. `/readyz`: it takes new work, so it does not drain and its store
/// answers. `/metrics`: see `metrics.rs`. Besides the console and its JSON.
fn routes(admin: Admin) -> Router {
    let guarded = middleware::from_fn_with_state(admin.clone(), guard::guard);
    let console = console::routes().merge(api::routes()).layer(guarded);
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics::show))
        .merge(console)
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
