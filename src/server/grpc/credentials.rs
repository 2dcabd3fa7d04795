//! What the caller of a stream has shown. It is looked at again while the stream lives, so that
//! access that is taken away ends.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::{Access, Identity, Unauthenticated};
use rustls::pki_types::UnixTime;

use super::{listen::tls::ClientCertificate, peer::Peer};

/// Ends are whole seconds, so that they are over a second later for sure.
const AFTER_END: Duration = Duration::from_secs(1);

/// The credentials of a stream's caller; in the request's extensions.
#[derive(Clone, Debug)]
pub(super) struct Credentials {
    access: Access,
    peer: Peer,
    token: Option<Arc<str>>,
    identity: Identity,
}

/// The identity of a call. The certificate of the connection must be good in any case.
pub(super) fn identify(
    access: &Access,
    peer: &Peer,
    token: Option<&str>,
) -> Result<Identity, Unauthenticated> {
    if let Some(certificate) = &peer.certificate {
        certificate.check()?;
    }
    access.identify(peer.identity.as_ref(), token)
}

// === impl Credentials ===

impl Credentials {
    pub(super) fn new(
        access: &Access,
        peer: &Peer,
        token: Option<&str>,
        identity: &Identity,
    ) -> Self {
        Self {
            access: access.clone(),
            peer: peer.clone(),
            token: token.map(Arc::from),
            identity: identity.clone(),
        }
    }

    /// Resolves when they no longer stand for the caller: at their end, or when files were reloaded
    /// that say so.
    pub(super) async fn refused(self) -> Unauthenticated {
        let mut changes = self.access.changes();
        loop {
            match identify(&self.access, &self.peer, self.token.as_deref()) {
                Err(why) => return why,
                Ok(identity) if identity != self.identity => {
                    let why = "the credentials now stand for another identity";
                    return Unauthenticated(why.to_owned());
                }
                Ok(_) => {}
            }
            let now = UnixTime::now().as_secs();
            let left = self
                .end()
                .map(|end| Duration::from_secs(end.saturating_sub(now)));
            let ended = async {
                match left {
                    Some(left) => tokio::time::sleep(left + AFTER_END).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                reloaded = changes.changed() => if reloaded.is_err() {
                    std::future::pending::<()>().await;
                },
                () = ended => {}
            }
        }
    }

    /// In seconds since 1970.
    fn end(&self) -> Option<u64> {
        let certificate = self.peer.certificate.as_ref();
        let certificate = certificate.and_then(ClientCertificate::end);
        let token = self.token.as_deref().and_then(|it| self.access.end_of(it));
        certificate.into_iter().chain(token).min()
    }
}
