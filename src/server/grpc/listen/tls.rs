//! TLS with certificates that may change while the process runs. Server certificate and client
//! authority change together, for new connections. The client certificates of existing connections
//! are checked again with the new authority.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use lockkeeper_access::{Unauthenticated, Unusable, Watched, end_of_certificate};
use parking_lot::Mutex;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime, pem::PemObject as _,
    },
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use tokio_rustls::TlsAcceptor;

use super::refused::Noting;

/// The files (PEM).
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority of client certificates; none: clients need no certificate.
    pub client_ca: Option<PathBuf>,
    /// The revocation lists of client authorities; none: nothing is revoked.
    pub client_crl: Option<PathBuf>,
}

/// The TLS configuration of new connections.
pub struct Tls(Watched<Loaded>);

struct Loaded {
    config: Arc<ServerConfig>,
    /// Of client certificates, if they are required.
    verifier: Option<Arc<dyn ClientCertVerifier>>,
}

/// The certificate of a connection's client. It is looked at again as long as the connection lives.
#[derive(Clone)]
pub struct ClientCertificate(Arc<Shown>);

struct Shown {
    tls: Arc<Tls>,
    chain: Vec<CertificateDer<'static>>,
    /// In seconds since 1970.
    end: Option<u64>,
    /// The configuration that the certificate was last checked with, and the result.
    checked: Mutex<(Weak<Loaded>, bool)>,
}

// === impl Tls ===

impl Tls {
    /// Reads the files.
    pub fn new(files: TlsFiles) -> Result<Self, Unusable> {
        let all = [files.certificate, files.key];
        let all = all.into_iter().chain(files.client_ca);
        let all = all.chain(files.client_crl);
        Ok(Self(Watched::new(all, config)?))
    }

    /// Reads the files again, for new connections. Unusable files change nothing. Returns whether
    /// they have changed. Blocking.
    pub fn reload(&self) -> bool {
        self.0
            .reload("server.tls", |_, _| "certificates".to_owned())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.get().config))
    }
}

// === impl ClientCertificate ===

impl ClientCertificate {
    /// A certificate with those that lead to its authority, just verified.
    pub(super) fn new(tls: &Arc<Tls>, chain: &[CertificateDer<'_>]) -> Self {
        let chain: Vec<_> = chain.iter().map(|it| it.clone().into_owned()).collect();
        let end = chain.first().and_then(|own| end_of_certificate(own));
        Self(Arc::new(Shown {
            tls: Arc::clone(tls),
            chain,
            end,
            checked: Mutex::new((Weak::new(), false)),
        }))
    }

    /// Its end, in seconds since 1970.
    pub(in crate::grpc) fn end(&self) -> Option<u64> {
        self.0.end
    }

    /// Refuses a certificate that has ended, or is not of the authority that is in force now.
    pub(in crate::grpc) fn check(&self) -> Result<(), Unauthenticated> {
        let refuse = |why: &str| Err(Unauthenticated(why.to_owned()));
        if self
            .0
            .end
            .is_some_and(|end| end < UnixTime::now().as_secs())
        {
            return refuse("the client certificate has expired");
        }
        let now = self.0.tls.0.get();
        let mut checked = self.0.checked.lock();
        if !std::ptr::eq(checked.0.as_ptr(), Arc::as_ptr(&now)) {
            *checked = (Arc::downgrade(&now), self.is_accepted(&now));
        }
        if checked.1 {
            return Ok(());
        }
        refuse("the client certificate is revoked, or its authority is no longer trusted")
    }

    fn is_accepted(&self, now: &Loaded) -> bool {
        let (Some(verifier), Some((own, others))) = (&now.verifier, self.0.chain.split_first())
        else {
            return true;
        };
        let accepted = verifier.verify_client_cert(own, others, UnixTime::now());
        accepted.is_ok()
    }
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn config(contents: &[Vec<u8>]) -> Result<Loaded, String> {
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
    let verifier = match client_ca {
        [] => None,
        [client_ca, client_crl @ ..] => Some(verifier(client_ca, client_crl.first(), provider)?),
    };
    let builder = match &verifier {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
    };
    // Fails for a key of another certificate, as while only one of the files has been replaced.
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| error.to_string())?;
    // Where HTTP/1.1 is off, its connections are closed at their first bytes.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed TLS session would skip the check of its certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let config = Arc::new(config);
    Ok(Loaded { config, verifier })
}

/// With revocation lists, a certificate is refused if its authority has none, because it might be
/// revoked. A list counts until a newer one replaces it, whatever its own end.
fn verifier(
    client_ca: &[u8],
    client_crl: Option<&Vec<u8>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for root in certificates(client_ca).map_err(|why| format!("the client CA: {why}"))? {
        let added = roots.add(root);
        added.map_err(|error| format!("the client CA: {error}"))?;
    }
    let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    if let Some(pem) = client_crl {
        let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
        let lists = lists.map_err(|error| format!("a revocation list: {error}"))?;
        if lists.is_empty() {
            return Err("there is no revocation list in server.tls.client_crl_file".to_owned());
        }
        verifier = verifier.with_crls(lists);
    }
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    Ok(Arc::new(Noting(verifier)))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| format!("a certificate cannot be read: {error}"))?;
    if all.is_empty() {
        return Err("it contains no certificate".to_owned());
    }
    Ok(all)
}
