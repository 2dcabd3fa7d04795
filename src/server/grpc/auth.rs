//! Authenticates each call once, before any other layer reads it. The result travels in the call's
//! extensions.

use std::sync::Arc;

use http::Request;
use lockkeeper_access::{Access, Account, Quota};
use tonic::{Status, body::Body};

use super::{
    budgets::Budgets, check::Check, credentials::Credentials, layer::STREAMS, peer::Peer, status,
};

/// Health checks need no credentials.
const OPEN: &str = "/grpc.health.v1.Health/";

/// Requests to these services, health and reflection, do not count towards quotas.
const UNCOUNTED: &str = "/grpc.";

/// Refuses calls without valid credentials, and adds the [`Account`] of others to their extensions,
/// with their [`Credentials`], which a stream may outlive.
/// Where callers need not be identified, all are anonymous and nothing is added.
#[derive(Clone, Debug)]
pub struct Authenticate {
    access: Access,
    budgets: Budgets,
}

/// The account that is charged for a call.
pub(super) fn account(extensions: &tonic::Extensions) -> Account {
    extensions.get::<Account>().cloned().unwrap_or_default()
}

// === impl Authenticate ===

impl Authenticate {
    pub(super) fn new(access: &Access, budgets: &Budgets) -> Self {
        let (access, budgets) = (access.clone(), budgets.clone());
        Self { access, budgets }
    }
}

impl Check for Authenticate {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Status> {
        if !self.access.asks() {
            return Ok(());
        }
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
