//! Errors as HTTP answers: `{"error": {"reason": …, "message": …}}`, with the reasons of the gRPC
//! API where they exist.

use axum::{
    Json,
    extract::rejection::{JsonRejection, QueryRejection},
    http::{Method, StatusCode, Uri, header::WWW_AUTHENTICATE},
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

    /// A path that nothing is at.
    pub(super) fn no_such_path(uri: &Uri) -> Self {
        let why = format!("there is nothing at {}", uri.path());
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", why)
    }

    /// A path that takes another method.
    pub(super) fn no_such_method(method: &Method, uri: &Uri) -> Self {
        let why = format!("{} does not take {method}", uri.path());
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", why)
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
        let message = match error {
            Error::Invalid(invalid) => format!("{}: {}", camel(invalid.field), invalid.why),
            error => error.to_string(),
        };
        Self::new(status, reason, message)
    }
}

/// A field as it is called in JSON: `pageToken` for `page_token`.
fn camel(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        name + &initial.to_uppercase() + rest
    })
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

#[cfg(test)]
mod tests {
    use lockkeeper_coordinator::Invalid;

    use super::*;

    #[test]
    fn a_parameter_is_named_as_in_the_query() {
        let failure = Failure::of(&Invalid::new("page_token", "is odd").into());
        assert_eq!(failure.message, "pageToken: is odd");
        assert_eq!(camel("gracePeriodSeconds"), "gracePeriodSeconds");
    }
}
