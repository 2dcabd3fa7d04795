//! The coordinator of the same container, asked without any setting: on its admin port, or on its
//! gRPC port, where the certificate in its own file shows that it is the one.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use hyper_util::rt::TokioIo;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// No answer of a probe is longer.
const ANSWER_MAX: u64 = 4096;

/// Where the coordinator of this container listens.
#[derive(Clone, Debug)]
pub struct Own {
    /// The admin port, if it has one.
    pub admin: Option<SocketAddr>,
    /// Where it serves gRPC.
    pub grpc: Grpc,
    /// The file with the certificate of the gRPC port (PEM), if it serves TLS.
    pub certificate: Option<PathBuf>,
}

/// Where a coordinator serves gRPC.
#[derive(Clone, Debug)]
pub enum Grpc {
    /// On a port.
    Port(SocketAddr),
    /// On a Unix-domain socket only.
    Socket(PathBuf),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Accepts one certificate only, whatever its names and its issuer are.
#[derive(Debug)]
struct Pinned {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

// === impl Own ===

impl Own {
    /// Whether the admin port says that the coordinator is ready.
    pub(super) async fn is_ready(admin: SocketAddr) -> io::Result<bool> {
        let mut stream = TcpStream::connect(reachable(admin)).await?;
        let request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer).await?;
        Ok(answer.starts_with(b"HTTP/1.1 200 "))
    }

    /// A channel to the gRPC port or socket. Fails if nothing answers there, or another certificate
    /// does.
    pub(super) async fn channel(&self) -> Result<Channel, String> {
        let tls = self.certificate.as_deref().map(pinned).transpose()?;
        let grpc = self.grpc.clone();
        let connector = service_fn(move |_| {
            let (grpc, tls) = (grpc.clone(), tls.clone());
            async move { Ok::<_, io::Error>(TokioIo::new(stream(&grpc, tls).await?)) }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = endpoint.connect_with_connector(connector).await;
        channel.map_err(|error| {
            let cause = std::error::Error::source(&error)
                .map_or_else(String::new, |it| it.source().unwrap_or(it).to_string());
            match &self.grpc {
                Grpc::Port(listen) => {
                    format!("no coordinator at {}: {cause}", reachable(*listen))
                }
                Grpc::Socket(path) => format!("no coordinator at {}: {cause}", path.display()),
            }
        })
    }
}

async fn stream(grpc: &Grpc, tls: Option<TlsConnector>) -> io::Result<Box<dyn Stream>> {
    let address = match grpc {
        Grpc::Port(listen) => reachable(*listen),
        Grpc::Socket(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
    };
    let stream = TcpStream::connect(address).await?;
    Ok(match tls {
        None => Box::new(stream),
        Some(tls) => {
            let name = ServerName::IpAddress(address.ip().into());
            Box::new(tls.connect(name, stream).await?)
        }
    })
}

/// An address that listens on all of the container's addresses is asked on the loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(ip, address.port())
}

/// TLS with the first certificate of a file.
fn pinned(file: &Path) -> Result<TlsConnector, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let certificate = CertificateDer::from_pem_file(file).map_err(|error| failed(&error))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned {
            certificate,
            provider,
        }))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

// === impl Pinned ===

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        if *end_entity == self.certificate {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
