//! Authenticates each call once, before any other layer reads it. The result travels in the call's
//! extensions.

use std::{
    future::{Ready, ready},
    net::SocketAddr,
    task::{Context, Poll},
};

use futures::future::Either;
use http::{Request, Response, header::AUTHORIZATION};
use lockkeeper_access::{Access, Account, Audited, Identity};
use lockkeeper_coordinator::PeerAddress;
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::status;

/// Health checks need no credentials.
const OPEN: &str = "/grpc.health.v1.Health/";

/// Requests to these services count towards quotas.
const COUNTED: &str = "/lockkeeper.";

/// The peer of a connection; in the extensions of each of its calls.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// None for a Unix-domain socket.
    pub address: Option<SocketAddr>,
    /// The identity of the connection: from its certificate, or the user of a Unix-domain socket.
    pub identity: Option<Identity>,
}

/// Refuses calls without valid credentials, and adds the [`Account`] of others to their extensions.
/// Where callers need not be identified, all are anonymous and nothing is added.
#[derive(Clone, Debug)]
pub struct AuthLayer {
    access: Access,
}

/// See [`AuthLayer`].
#[derive(Clone, Debug)]
pub struct AuthService<S> {
    access: Access,
    inner: S,
}

/// The account that is charged for a call.
pub(super) fn account(extensions: &tonic::Extensions) -> Account {
    extensions.get::<Account>().cloned().unwrap_or_default()
}

// === impl Peer ===

impl Peer {
    /// The address that other callers may see.
    pub(super) fn address(&self) -> PeerAddress {
        self.address.map_or(PeerAddress::Unix, PeerAddress::Tcp)
    }
}

// === impl AuthLayer ===

impl AuthLayer {
    pub(super) fn new(access: Access) -> Self {
        Self { access }
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AuthService {
            access: self.access.clone(),
            inner,
        }
    }
}

// === impl AuthService ===

impl<S> AuthService<S> {
    fn admit(&self, request: &mut Request<Body>) -> Result<(), Status> {
        let path = request.uri().path();
        if path.starts_with(OPEN) {
            return Ok(());
        }
        let is_counted = path.starts_with(COUNTED);
        let peer = request.extensions().get::<Peer>();
        let address = peer.and_then(|peer| peer.address);
        let connection = peer.and_then(|peer| peer.identity.as_ref());
        let identity = self.access.identify(connection, bearer(request));
        let identity = identity.map_err(|why| {
            let denied = Audited {
                identity: &Identity::anonymous(),
                peer: address,
                operation: path,
                name: "",
                reason: &why.0,
            };
            denied.denied();
            status::unauthenticated(&why)
        })?;
        let account = self.access.account(identity).used_from(address);
        if is_counted {
            account.request().map_err(status::quota)?;
        }
        request.extensions_mut().insert(account);
        Ok(())
    }
}

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
        if self.access.asks()
            && let Err(refused) = self.admit(&mut request)
        {
            return Either::Left(ready(Ok(refused.into_http())));
        }
        Either::Right(self.inner.call(request))
    }
}

/// The token of an `authorization: Bearer …` header.
fn bearer(request: &Request<Body>) -> Option<&str> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
