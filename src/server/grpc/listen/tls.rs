//! TLS with certificates that may change while the process runs. Server certificate and client
//! authority change together, for new connections; existing connections keep theirs.

use std::{path::PathBuf, sync::Arc};

use lockkeeper_access::{Unusable, Watched};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use tokio_rustls::TlsAcceptor;

/// The files (PEM).
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority of client certificates; none: clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// The TLS configuration of new connections.
pub struct Tls(Watched<ServerConfig>);

// === impl Tls ===

impl Tls {
    /// Reads the files.
    pub fn new(files: TlsFiles) -> Result<Self, Unusable> {
        let all = [files.certificate, files.key];
        let all = all.into_iter().chain(files.client_ca);
        Ok(Self(Watched::new(all, config)?))
    }

    /// Reads the files again, for new connections. Unusable files change nothing. Blocking.
    pub fn reload(&self) {
        self.0
            .reload("server.tls", |_, _| "certificates".to_owned());
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.get())
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn config(contents: &[Vec<u8>]) -> Result<ServerConfig, String> {
    let [certificate, key, client_ca @ ..] = contents else {
        return Err("needs a certificate and a key".to_owned());
    };
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("the key cannot be read: {error}"))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match client_ca {
        [] => builder.with_no_client_auth(),
        [client_ca, ..] => {
            let mut roots = RootCertStore::empty();
            for root in certificates(client_ca).map_err(|why| format!("the client CA: {why}"))? {
                let added = roots.add(root);
                added.map_err(|error| format!("the client CA: {error}"))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| error.to_string())?)
        }
    };
    // Fails for a key of another certificate, as while only one of the files has been replaced.
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // A resumed TLS session would skip the check of its certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| format!("a certificate cannot be read: {error}"))?;
    if all.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    Ok(all)
}
