//! Answers of a proxy that reaches no coordinator, such as a page of HTML.

use std::task::{Context, Poll};

use futures::{FutureExt as _, future::Map};
use hyper::http::{Request, Response, header::CONTENT_TYPE};
use tonic::{
    Code, Status,
    body::Body,
    transport::{self, Channel, channel::ResponseFuture},
};
use tower::{BoxError, Service};

type Answered<E> = Result<Response<Body>, E>;

/// A channel whose calls fail if the answer is not gRPC. tonic would take a page for a message.
#[derive(Clone, Debug)]
pub struct GrpcOnly(pub(crate) Channel);

// === impl GrpcOnly ===

impl Service<Request<Body>> for GrpcOnly {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Map<ResponseFuture, fn(Answered<transport::Error>) -> Answered<BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request).map(|answered| Ok(checked(answered?)?))
    }
}

/// The code is that of gRPC's document "HTTP to gRPC Status Code Mapping".
fn checked(answer: Response<Body>) -> Answered<Status> {
    let content = answer.headers().get(CONTENT_TYPE);
    if content.is_some_and(|it| it.as_bytes().starts_with(b"application/grpc")) {
        return Ok(answer);
    }
    let status = answer.status();
    let code = match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    };
    let why = format!("the answer is not gRPC but HTTP {status}, as from a proxy");
    Err(Status::new(code, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, content: &str) -> Answered<Status> {
        let answer = Response::builder().status(status);
        let answer = answer.header(CONTENT_TYPE, content);
        checked(answer.body(Body::empty()).unwrap())
    }

    #[test]
    fn a_page_of_a_proxy_is_a_status() {
        for (http, code) in [
            (200, Code::Unknown),
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (429, Code::Unavailable),
            (500, Code::Unknown),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::Unavailable),
        ] {
            let refused = answered(http, "text/html").unwrap_err();
            assert_eq!(refused.code(), code, "{http}");
            assert!(refused.message().contains(&format!("HTTP {http}")));
        }
        assert!(answered(200, "application/grpc").is_ok());
        assert!(answered(200, "application/grpc+proto").is_ok());
    }
}
