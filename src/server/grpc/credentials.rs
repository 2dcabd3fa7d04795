//! What the caller of a stream has shown. It is looked at again while the stream lives, so that
//! access that is taken away ends.

use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use lockkeeper_access::{Access, Identity, Unauthenticated};
use tonic::Status;

use super::{listen::tls::ClientCertificate, peer::Peer, status};
use crate::{bearer::bearer, fleet::ON_BEHALF};

/// The credentials of a call's caller; in the request's extensions.
#[derive(Clone, Debug)]
pub(super) struct Credentials {
    access: Access,
    peer: Peer,
    authorization: Option<HeaderValue>,
    identity: Identity,
}

// === impl Credentials ===

impl Credentials {
    /// Identifies the caller of a call with these headers. The certificate of the connection must
    /// be good in any case.
    pub(super) fn of(
        access: &Access,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<Self, Unauthenticated> {
        let authorization = headers.get(AUTHORIZATION).cloned();
        let mut peer = peer.clone();
        // The connection is that of another coordinator, which asks for the caller.
        if headers.contains_key(ON_BEHALF) {
            peer.identity = None;
        }
        Ok(Self {
            identity: identify(access, &peer, authorization.as_ref())?,
            access: access.clone(),
            peer,
            authorization,
        })
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether a rule allows the caller anything.
    pub(super) fn have_right(&self) -> bool {
        self.access.allows_anything(&self.identity)
    }

    /// Resolves when they no longer stand for the caller, or no rule allows it anything any more:
    /// at their end, or when files were reloaded that say so.
    pub(super) async fn refused(self) -> Status {
        let look = || {
            let identity = identify(&self.access, &self.peer, self.authorization.as_ref());
            let identity = identity.map_err(|why| status::unauthenticated(&why))?;
            if identity != self.identity {
                let why = "the credentials now belong to another identity";
                return Err(status::unauthenticated(&Unauthenticated(why.to_owned())));
            }
            if !self.have_right() {
                return Err(status::no_right());
            }
            Ok(self.end())
        };
        self.access.until_refused(look).await
    }

    /// In seconds since 1970.
    fn end(&self) -> Option<u64> {
        let certificate = self.peer.certificate.as_ref();
        let certificate = certificate.and_then(ClientCertificate::end);
        let token = bearer(self.authorization.as_ref()).and_then(|it| self.access.end_of(it));
        certificate.into_iter().chain(token).min()
    }
}

fn identify(
    access: &Access,
    peer: &Peer,
    authorization: Option<&HeaderValue>,
) -> Result<Identity, Unauthenticated> {
    if let Some(certificate) = &peer.certificate {
        certificate.check()?;
    }
    access.identify(peer.identity.as_ref(), bearer(authorization))
}
