//! The caller, for the audit log.

use std::net::SocketAddr;

use lockkeeper_access::{Account, Audited, Identity};
use tonic::Request;

use super::{Peer, auth};
use crate::fleet::Forwarded;

/// The caller and its address.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) identity: Identity,
    peer: Option<SocketAddr>,
}

/// Audits an allowed call of an ordinary caller.
pub(super) fn allowed(account: &Account, operation: &str, name: &str) {
    of(account, operation, name).allowed();
}

/// Audits a call of a caller without any right.
pub(super) fn denied(account: &Account, operation: &str) {
    of(account, operation, "").denied();
}

fn of<'a>(account: &'a Account, operation: &'a str, name: &'a str) -> Audited<'a> {
    Audited {
        identity: account.identity(),
        peer: account.peer(),
        operation,
        name,
        reason: "",
    }
}

// === impl Caller ===

impl Caller {
    /// The caller of a request; anonymous where no credentials are required.
    pub(super) fn of<T>(request: &Request<T>) -> Self {
        Self {
            identity: auth::account(request.extensions()).identity().clone(),
            peer: request.extensions().get::<Peer>().and_then(|it| it.address),
        }
    }

    /// The caller as other coordinators are shown it.
    pub(super) fn forwarded<T>(&self, request: &Request<T>) -> Forwarded {
        let headers: &http::HeaderMap = request.metadata().as_ref();
        Forwarded::new(headers.get(http::header::AUTHORIZATION), &self.identity)
    }

    /// The audit record of the caller's request.
    pub(super) fn asks<'a>(
        &'a self,
        operation: &'a str,
        name: &'a str,
        reason: &'a str,
    ) -> Audited<'a> {
        Audited {
            identity: &self.identity,
            peer: self.peer,
            operation,
            name,
            reason,
        }
    }
}
