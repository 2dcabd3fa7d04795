//! TLS, tokens and sockets, as clients meet them: the real binary and real connections.

mod audit;
mod jwts;
mod listeners;
mod revoked;
mod rules;
mod shares;
mod tls;
mod tokens;

use std::{fs, path::PathBuf};

use lockkeeper_api::pb::lock_service_client::LockServiceClient;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use tonic::{
    Request, Status,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use crate::prelude::*;

/// An authority, and a folder for what it issues.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    folder: TempDir,
}

/// A certificate and its key, in PEM form.
struct Issued {
    certificate: String,
    key: String,
}

// === impl Authority ===

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
            folder: TempDir::new().unwrap(),
        }
    }

    fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// A client's certificate.
    fn client(&self, uri: &str) -> Issued {
        let uri = SanType::URI(uri.try_into().unwrap());
        self.issue(|params| params.subject_alt_names = vec![uri])
    }

    /// The files of a client's certificate and of its key.
    pub(crate) fn client_files(&self, uri: &str) -> [String; 2] {
        let Issued { certificate, key } = self.client(uri);
        let name = uri.rsplit('/').next().unwrap_or_default();
        [("crt", certificate), ("key", key)].map(|(kind, text)| {
            let path = self.file(&format!("{name}.{kind}"), &text);
            path.display().to_string()
        })
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Puts a certificate and its key where the coordinator reads them.
    fn install(&self, issued: &Issued) {
        self.file("tls.crt", &issued.certificate);
        self.file("tls.key", &issued.key);
    }

    /// Where its own certificate is.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.file("ca.crt", &self.certificate)
    }

    /// A coordinator with TLS.
    fn settings(&self) -> Settings {
        self.secured(Settings::on("embedded:"))
    }

    pub(crate) fn secured(&self, settings: Settings) -> Settings {
        self.install(&self.issue(|_| {}));
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        settings
            .with("server.tls.certificate_file", &file("tls.crt"))
            .with("server.tls.key_file", &file("tls.key"))
    }

    /// The same for clients with certificates.
    fn mutual(&self) -> Settings {
        let ca = self.ca_file().display().to_string();
        self.settings().with("server.tls.client_ca_file", &ca)
    }

    /// Connects as somebody who trusts this authority.
    async fn connect(
        &self,
        coordinator: &Coordinator,
        shown: Option<&Issued>,
    ) -> Result<Channel, tonic::transport::Error> {
        // Somebody else may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.certificate))
            .domain_name("localhost");
        if let Some(Issued { certificate, key }) = shown {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        let address = format!("https://{}", coordinator.address());
        let endpoint = Endpoint::from_shared(address)?.tls_config(tls)?;
        endpoint.timeout(PATIENCE).connect().await
    }
}

const PATIENCE: Duration = Duration::from_secs(15);

/// One try for a lock, with a bearer token if there is one.
async fn try_acquire(
    channel: &Channel,
    name: &str,
    owner: &str,
    token: Option<&str>,
) -> Result<bool, Status> {
    let mut request = Request::new(try_request(name, owner).lasting(Duration::from_secs(30)));
    if let Some(token) = token {
        let header = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
    }
    let mut api = LockServiceClient::new(channel.clone());
    Ok(api.try_acquire(request).await?.into_inner().acquired)
}

/// Waits until something holds that the coordinator comes to by itself, looking again and again.
async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let give_up = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < give_up, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A day that is over.
fn expired(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2020, 1, 2);
}
