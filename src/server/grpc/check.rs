//! Layers that let a call pass, perhaps changed, or answer it at once.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
};

use futures::future::Either;
use http::{Request, Response};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

/// What a call has to pass.
pub trait Check: Clone {
    /// Lets the call pass, perhaps changed. An error is its answer.
    fn check(&self, request: &mut Request<Body>) -> Result<(), Status>;
}

/// The layer of a check.
#[derive(Clone, Debug)]
pub struct CheckLayer<C>(pub(super) C);

/// See [`CheckLayer`].
#[derive(Clone, Debug)]
pub struct CheckService<C, S> {
    check: C,
    inner: S,
}

impl<C: Check, S> Layer<S> for CheckLayer<C> {
    type Service = CheckService<C, S>;

    fn layer(&self, inner: S) -> Self::Service {
        let check = self.0.clone();
        CheckService { check, inner }
    }
}

// === impl CheckService ===

impl<C, S> Service<Request<Body>> for CheckService<C, S>
where
    C: Check,
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<S::Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.check.check(&mut request) {
            Ok(()) => Either::Right(self.inner.call(request)),
            Err(refused) => Either::Left(ready(Ok(refused.into_http()))),
        }
    }
}
