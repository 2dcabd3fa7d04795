//! The admin port: HTTP for people and monitoring, apart from the clients' port. Read-only, unless
//! the configuration allows forced releases.

mod api;
mod console;
mod events;
mod failure;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod listen;
mod metrics;
mod sessions;
mod state;

pub use self::{
    metrics::Metrics,
    state::{Admin, Config},
};

use std::{future::Future, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    middleware,
    response::{IntoResponse as _, Response},
    routing::get,
};
use tokio::net::TcpListener;

use self::{failure::Failure, guard::Caller};

// === impl Admin ===

/// The longest wait for the probe that refreshes the metrics; `store.call_timeout` if that is
/// shorter.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest body of a request.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Serves the admin port until `stop` resolves. Connections beyond `connections_max`, or too many
/// of one address, are closed at once.
pub async fn serve(
    admin: Admin,
    listener: TcpListener,
    connections_max: usize,
    stop: impl Future<Output = ()>,
) {
    listen::serve(routes(admin), listener, connections_max, stop).await;
}

/// `/livez`: the process serves. `/readyz`: it accepts new work, so it does not drain and its store
/// answers and takes writes. `/metrics`: see `metrics.rs`. Besides them the console and its JSON.
fn routes(admin: Admin) -> Router {
    let guarded = middleware::from_fn_with_state(admin.clone(), guard::guard);
    let console = console::routes().merge(api::routes());
    let console = console
        .fallback(|uri: Uri| async move { Failure::no_such_path(&uri) })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            Failure::no_such_method(&method, &uri)
        })
        .layer(guarded);
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(show_metrics))
        .merge(console)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(admin)
}

async fn ready(State(admin): State<Admin>) -> (StatusCode, String) {
    if admin.coordinator.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
    }
    match admin.probe.is_ready().await {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// Scrapers show a token if one is required; any identity will do.
async fn show_metrics(
    State(admin): State<Admin>,
    caller: Result<Caller, Failure>,
    headers: HeaderMap,
) -> Response {
    if admin.authenticates_metrics
        && let Err(refused) = caller.and_then(Caller::identified)
    {
        return refused.into_response();
    }
    let _ = tokio::time::timeout(PROBE_TIMEOUT, admin.probe.store_answers()).await;
    admin.coordinator.refresh_metrics();
    admin.metrics.show(&headers)
}
