//! The door of the admin port for `tests/fuzzing`.

use axum::{body::Body, extract::Request, response::Response};
use tower::ServiceExt as _;

use super::{Admin, routes};

/// Answers a request as a connection of the port would.
pub async fn answer(admin: Admin, request: Request<Body>) -> Response {
    let Ok(answer) = routes(admin).oneshot(request).await;
    answer
}
