//! Errors as Connect has them.

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use tonic::{Code, Status};

use super::schema;
use crate::grpc::status;

/// An error, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Failure {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<Detail>,
}

/// The last message of a stream of answers.
#[derive(Debug, Serialize)]
pub(super) struct End {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Failure>,
}

#[derive(Debug, Serialize)]
struct Detail {
    #[serde(rename = "type")]
    kind: String,
    value: String,
    /// The same for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    debug: Option<Value>,
}

impl From<&Status> for Failure {
    fn from(status: &Status) -> Self {
        let details = status::message(status).details.into_iter();
        Self {
            code: name(status.code()),
            message: status.message().to_owned(),
            details: details.map(Detail::from).collect(),
        }
    }
}

impl From<prost_types::Any> for Detail {
    fn from(detail: prost_types::Any) -> Self {
        let kind = detail.type_url.rsplit('/').next().unwrap_or_default();
        let json = schema::message(kind).and_then(|it| schema::to_json(&it, &detail.value).ok());
        Self {
            kind: kind.to_owned(),
            value: BASE64_STANDARD_NO_PAD.encode(&detail.value),
            debug: json.and_then(|json| serde_json::from_slice(&json).ok()),
        }
    }
}

fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "canceled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

/// The HTTP status of an error.
pub(super) fn http(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        // "Client closed request", which has no name.
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
