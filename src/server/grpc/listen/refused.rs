//! Client certificates that a handshake refuses or misses: whom they name, for the audit log.

use std::{cell::RefCell, future::Future, io, sync::Arc};

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

tokio::task_local! {
    /// Whom the refused certificate of this handshake names.
    static NAMED: RefCell<Option<String>>;
}

/// Verifies as another does, and notes whom a refused certificate names.
#[derive(Debug)]
pub(super) struct Noting(pub(super) Arc<dyn ClientCertVerifier>);

/// Runs a handshake. Also returns whom the certificate names if it was refused; nothing proves the
/// name.
pub(super) async fn noting<T>(
    handshake: impl Future<Output = io::Result<T>>,
) -> (io::Result<T>, Option<String>) {
    let noted = async {
        let ended = handshake.await;
        (ended, NAMED.with(RefCell::take))
    };
    NAMED.scope(RefCell::default(), noted).await
}

/// Whether a handshake failed because the client has shown no certificate. There is none to verify.
pub(super) fn shows_none(failed: &io::Error) -> bool {
    let tls = failed.get_ref().and_then(|it| it.downcast_ref());
    matches!(tls, Some(Error::NoCertificatesPresented))
}

impl ClientCertVerifier for Noting {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.0.verify_client_cert(own, others, now);
        if verified.is_err() {
            let identity = lockkeeper_access::of_certificate(own);
            let name = identity.map_or_else(|| "?".to_owned(), |it| it.to_string());
            // Not in a handshake, but when a connection is looked at again.
            let _ = NAMED.try_with(|named| named.replace(Some(name)));
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
