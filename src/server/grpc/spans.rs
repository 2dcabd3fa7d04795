//! The spans of calls and frames, which continue the caller's trace.

use http::HeaderMap;
use lockkeeper_base::spans::{Caller, TARGET, TRACEPARENT, TRACESTATE, adopt};
use tonic::Code;
use tracing::{Span, field::Empty, trace_span};

use super::pb::session_request::Request;

/// The method of the frames of a session's stream.
const SESSION: &str = "lockkeeper.v1.LockService/Session";

/// The span of a call, named by the method's path.
pub(super) fn of_call(path: &str, headers: &HeaderMap) -> Span {
    let method = path.trim_start_matches('/');
    let span = trace_span!(
        target: TARGET,
        parent: None,
        "call",
        otel.name = method,
        otel.kind = "server",
        otel.status_code = Empty,
        rpc.system.name = "grpc",
        rpc.method = method,
        rpc.response.status_code = Empty,
    );
    if !span.is_disabled() {
        let text = |key| headers.get(key).and_then(|value| value.to_str().ok());
        let caller = Caller {
            traceparent: text(TRACEPARENT),
            tracestate: text(TRACESTATE),
        };
        adopt(&span, caller);
    }
    span
}

/// The span of a requesting frame. It is no child of its stream's span, which lasts as long as the
/// session.
pub(super) fn of_frame(request: Option<&Request>, traceparent: &str) -> Span {
    let span = trace_span!(
        target: TARGET,
        parent: None,
        "frame",
        otel.name = "Session frame",
        otel.kind = "server",
        rpc.system.name = "grpc",
        rpc.method = SESSION,
    );
    if !span.is_disabled() && request.is_some() {
        let caller = Caller {
            traceparent: Some(traceparent).filter(|it| !it.is_empty()),
            tracestate: None,
        };
        adopt(&span, caller);
    }
    span
}

/// Records how a call ended.
pub(super) fn ended(span: &Span, code: Code, name: &'static str) {
    if span.is_disabled() {
        return;
    }
    span.record("rpc.response.status_code", name);
    let is_ours = matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    );
    if is_ours {
        span.record("otel.status_code", "ERROR");
    }
}
