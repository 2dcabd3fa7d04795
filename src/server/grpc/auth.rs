//! Authenticates each call once, before any other layer reads it. The result travels in the call's
//! extensions.

use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::Either;
use http::{Request, Response};
use lockkeeper_access::{Access, Account, Quota};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::{budgets::Budgets, credentials::Credentials, layer::STREAMS, peer::Peer, status};

/// Health checks need no credentials.
const OPEN: &str = "/grpc.health.v1.Health/";

/// Requests to these services, health and reflection, do not count towards quotas.
const UNCOUNTED: &str = "/grpc.";

/// Refuses calls without valid credentials, and adds the [`Account`] of others to their extensions,
/// with their [`Credentials`], which a stream may outlive.
/// Where callers need not be identified, all are anonymous and nothing is added.
#[derive(Clone, Debug)]
pub struct AuthLayer {
    access: Access,
    budgets: Budgets,
}

/// See [`AuthLayer`].
#[derive(Clone, Debug)]
pub struct AuthService<S> {
    layer: AuthLayer,
    inner: S,
}

/// The account that is charged for a call.
pub(super) fn account(extensions: &tonic::Extensions) -> Account {
    extensions.get::<Account>().cloned().unwrap_or_default()
}

// === impl AuthLayer ===

impl AuthLayer {
    pub(super) fn new(access: Access, budgets: Budgets) -> Self {
        Self { access, budgets }
    }

    fn admit(&self, request: &mut Request<Body>) -> Result<(), Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let peer = peer.unwrap_or_default();
        let path = request.uri().path();
        if path.starts_with(OPEN) {
            if !peer.usage.is_authenticated() {
                let place = self.budgets.call(&peer)?;
                request.extensions_mut().insert(place);
            }
            return Ok(());
        }
        let is_counted = !path.starts_with(UNCOUNTED);
        let credentials = Credentials::of(&self.access, &peer, request.headers());
        let credentials = credentials.map_err(|why| {
            self.access.denied(peer.address, path, &why);
            status::unauthenticated(&why)
        })?;
        peer.usage.authenticate();
        let account = self.access.account(credentials.identity().clone());
        let account = account.used_from(peer.address);
        if is_counted {
            account.request().map_err(status::quota)?;
        }
        if STREAMS.iter().any(|it| path.ends_with(it)) {
            let counted = account.count(Quota::Streams, 1).map_err(status::quota)?;
            request.extensions_mut().insert(Arc::new(counted));
        }
        request.extensions_mut().insert(account);
        request.extensions_mut().insert(credentials);
        Ok(())
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = self.clone();
        AuthService { layer, inner }
    }
}

// === impl AuthService ===

impl<S> Service<Request<Body>> for AuthService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<S::Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if self.layer.access.asks()
            && let Err(refused) = self.layer.admit(&mut request)
        {
            return Either::Left(ready(Ok(refused.into_http())));
        }
        Either::Right(self.inner.call(request))
    }
}
