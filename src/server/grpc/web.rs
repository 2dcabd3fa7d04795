//! The browser's door: a call over gRPC-Web is refused if it comes from a page of another site.

use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::Either;
use http::{
    HeaderMap, Request, Response,
    header::{CONTENT_TYPE, HOST, ORIGIN},
};
use tonic::body::Body;
use tower::{Layer, Service};

use super::status;
use crate::hosts::AllowedHosts;

/// Checks the host and the origin of calls that a browser can make. None: nothing is checked.
#[derive(Clone, Debug)]
pub struct WebLayer(pub(super) Option<Arc<AllowedHosts>>);

/// See [`WebLayer`].
#[derive(Clone, Debug)]
pub struct WebService<S> {
    allowed: Option<Arc<AllowedHosts>>,
    inner: S,
}

impl<S> Layer<S> for WebLayer {
    type Service = WebService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let allowed = self.0.clone();
        WebService { allowed, inner }
    }
}

// === impl WebService ===

impl<S> Service<Request<Body>> for WebService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<S::Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let allowed = self.allowed.as_ref();
        if allowed.is_some_and(|allowed| is_foreign(&request, allowed)) {
            return Either::Left(ready(Ok(status::another_site().into_http())));
        }
        Either::Right(self.inner.call(request))
    }
}

/// Whether a call may come from a browser and does not name an accepted host.
fn is_foreign(request: &Request<Body>, allowed: &AllowedHosts) -> bool {
    let headers = request.headers();
    let text = |name| text(headers, name);
    let kind = text(CONTENT_TYPE.as_str()).unwrap_or_default();
    let origin = text(ORIGIN.as_str());
    if !kind.starts_with("application/grpc-web") && origin.is_none() {
        return false;
    }
    let authority = request.uri().authority().map(http::uri::Authority::as_str);
    let host = text(HOST.as_str()).or(authority);
    let Some(host) = host.filter(|host| allowed.allow(host)) else {
        return true;
    };
    origin.is_some_and(|origin| !allowed.allow_origin(origin, host))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
