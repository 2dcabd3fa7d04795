//! Who makes a call, for what is audited.

use std::net::SocketAddr;

use lockkeeper_access::{Audited, Identity};
use tonic::Request;

use super::{Peer, auth};

/// Who makes a call, and from where.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) identity: Identity,
    peer: Option<SocketAddr>,
}

// === impl Caller ===

impl Caller {
    /// By what the request brings along; anonymous where credentials are not asked for.
    pub(super) fn of<T>(request: &Request<T>) -> Self {
        Self {
            identity: auth::account(request.extensions()).identity().clone(),
            peer: request.extensions().get::<Peer>().and_then(|it| it.address),
        }
    }

    /// What the caller asks for, to be audited.
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
