//! A shortcut to the service that receives nearly all calls. It saves the router's look-up, and the
//! boxes around its answers.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, Either};
use http::{Request, Response};
use tonic::{body::Body, server::NamedService};
use tower::{Layer, Service};

use super::{lock::LockService, pb::lock_service_server::LockServiceServer};

/// The server of `LockService`.
pub(super) type LockServer = LockServiceServer<LockService>;

/// Passes calls of `LockService` to it, and other calls on.
#[derive(Clone, Debug)]
pub struct RouterBypassLayer {
    locks: Option<LockServer>,
}

/// See [`RouterBypassLayer`].
#[derive(Clone, Debug)]
pub struct RouterBypassService<S> {
    locks: Option<LockServer>,
    others: S,
}

// === impl RouterBypassLayer ===

impl RouterBypassLayer {
    /// Without `locks`, all calls are passed on.
    pub(super) fn new(locks: Option<LockServer>) -> Self {
        Self { locks }
    }
}

impl<S> Layer<S> for RouterBypassLayer {
    type Service = RouterBypassService<S>;

    fn layer(&self, others: S) -> Self::Service {
        let locks = self.locks.clone();
        RouterBypassService { locks, others }
    }
}

// === impl RouterBypassService ===

impl<S> Service<Request<Body>> for RouterBypassService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Either<BoxFuture<'static, Result<Response<Body>, Infallible>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // A generated service is always ready.
        self.others.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match &mut self.locks {
            Some(locks) if is_of::<LockServer>(request.uri().path()) => {
                Either::Left(locks.call(request))
            }
            _ => Either::Right(self.others.call(request)),
        }
    }
}

/// Whether a path is that of a method of the service.
fn is_of<D: NamedService>(path: &str) -> bool {
    let rest = path
        .strip_prefix('/')
        .and_then(|path| path.strip_prefix(D::NAME));
    rest.is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Locks;

    impl NamedService for Locks {
        const NAME: &'static str = "v1.Locks";
    }

    #[test]
    fn a_path_is_of_the_service_that_it_names_whole() {
        assert!(is_of::<Locks>("/v1.Locks/Acquire"));
        for other in ["/v1.LocksAdmin/List", "/v1.Locks", "v1.Locks/Acquire", "/"] {
            assert!(!is_of::<Locks>(other), "{other}");
        }
    }
}
