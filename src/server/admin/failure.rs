//! Errors as HTTP answers: `{"error": {"reason": …, "message": …}}`, with the reasons of the gRPC
//! API where they exist.

use axum::{
    Json,
    extract::rejection::{JsonRejection, QueryRejection},
    http::{StatusCode, header::WWW_AUTHENTICATE},
    response::{IntoResponse, Response},
};
use lockkeeper_access::{Audited, Unauthenticated};
use lockkeeper_coordinator::Error;
use serde_json::json;

/// Why a request failed.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    reason: &'static str,
    message: String,
}

// === impl Failure ===

impl Failure {
    pub(super) fn new(
        status: StatusCode,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            reason,
            message: message.into(),
        }
    }

    pub(super) fn unauthenticated(why: &Unauthenticated) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", why.to_string())
    }

    pub(super) fn of(error: &Error) -> Self {
        let (status, reason) = match error {
            Error::Invalid(_) => (StatusCode::BAD_REQUEST, "INVALID"),
            Error::LimitReached(_) => (StatusCode::TOO_MANY_REQUESTS, "LIMIT_REACHED"),
            Error::SessionNotFound => (StatusCode::NOT_FOUND, "SESSION_NOT_FOUND"),
            Error::Draining => (StatusCode::SERVICE_UNAVAILABLE, "DRAINING"),
            Error::Store(store) if store.is_transient() => {
                (StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE")
            }
            Error::Store(_) => (StatusCode::CONFLICT, "REFUSED"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"),
        };
        Self::new(status, reason, error.to_string())
    }
}

impl From<JsonRejection> for Failure {
    fn from(rejected: JsonRejection) -> Self {
        Self::new(rejected.status(), "INVALID", rejected.body_text())
    }
}

impl From<QueryRejection> for Failure {
    fn from(rejected: QueryRejection) -> Self {
        Self::new(rejected.status(), "INVALID", rejected.body_text())
    }
}

/// Audits how a change ended.
pub(super) fn audited<T>(asked: &Audited<'_>, ended: Result<T, Error>) -> Result<T, Failure> {
    match &ended {
        Ok(_) => asked.done(),
        Err(error) => asked.failed(error),
    }
    ended.map_err(|error| Failure::of(&error))
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({ "error": { "reason": self.reason, "message": self.message } });
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = axum::http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
