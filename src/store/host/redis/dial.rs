//! Opens streams to a server for connections of our own.

use std::{io, net::SocketAddr, sync::Arc};

use deadpool_redis::redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, RedisError, RedisResult,
    aio::MultiplexedConnection,
    io::tcp::{TcpSettings, socket2::SockRef},
};
use futures::future::select_ok;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{copy_bidirectional, duplex},
    net::{TcpStream, lookup_host},
};
use tokio_rustls::TlsConnector;

use super::{TlsCertificates, wire::Stream};

/// What a greeting and its answer may take at once.
const GREETING_BYTES: usize = 16 * 1024;

/// Opens a stream to this server, and logs in.
pub(super) async fn dial(
    info: &ConnectionInfo,
    certificates: &TlsCertificates,
) -> RedisResult<Box<dyn Stream>> {
    let (host, port, tls) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => (host, *port, None),
        ConnectionAddr::TcpTls { host, port, .. } => {
            let connector = TlsConnector::from(Arc::new(tls_config(certificates)?));
            (host, *port, Some(connector))
        }
        other => return Err(io::Error::other(format!("{other} is no address of TCP")).into()),
    };
    let addresses = lookup_host((host.as_str(), port)).await?;
    let attempts = addresses.map(|address| {
        let (tls, settings) = (tls.clone(), info.tcp_settings());
        Box::pin(open(address, host, tls, settings))
    });
    let attempts: Vec<_> = attempts.collect();
    if attempts.is_empty() {
        return Err(io::Error::other("the host has no address").into());
    }
    let (mut stream, _others) = select_ok(attempts).await?;
    greet(info, &mut stream).await?;
    Ok(stream)
}

async fn open(
    address: SocketAddr,
    host: &str,
    tls: Option<TlsConnector>,
    settings: &TcpSettings,
) -> RedisResult<Box<dyn Stream>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(settings.nodelay())?;
    {
        let socket = SockRef::from(&tcp);
        if let Some(keepalive) = settings.keepalive() {
            socket.set_tcp_keepalive(keepalive)?;
        }
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(settings.user_timeout())?;
    }
    Ok(match tls {
        None => Box::new(tcp),
        Some(tls) => {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            Box::new(tls.connect(name, tcp).await?)
        }
    })
}

/// Logs in, chooses the protocol and the database: by the library, over our stream.
async fn greet(info: &ConnectionInfo, stream: &mut Box<dyn Stream>) -> RedisResult<()> {
    let (near, mut far) = duplex(GREETING_BYTES);
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let greeting = MultiplexedConnection::new_with_config(info.redis_settings(), near, config);
    tokio::select! {
        // It ends when the last answer was read, and nothing comes unasked.
        greeted = greeting => greeted.map(drop),
        copied = copy_bidirectional(&mut far, stream) => {
            let closed = || io::ErrorKind::ConnectionReset.into();
            Err(copied.err().unwrap_or_else(closed).into())
        }
    }
}

/// As the library has it: what is trusted is the given authority, or else the system's.
fn tls_config(certificates: &TlsCertificates) -> RedisResult<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = &certificates.root {
        for certificate in chain(pem)? {
            roots.add(certificate).map_err(io::Error::other)?;
        }
    } else {
        let mut system = rustls_native_certs::load_native_certs();
        if let Some(error) = system.errors.pop() {
            return Err(io::Error::other(error).into());
        }
        roots.add_parsable_certificates(system.certs);
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    Ok(match &certificates.client {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key).map_err(io::Error::other)?;
            let config = config.with_client_auth_cert(chain(certificate)?, key);
            config.map_err(io::Error::other)?
        }
    })
}

fn chain(pem: &[u8]) -> RedisResult<Vec<CertificateDer<'static>>> {
    let chain: Result<_, _> = CertificateDer::pem_slice_iter(pem).collect();
    chain.map_err(|error| RedisError::from(io::Error::other(error)))
}
