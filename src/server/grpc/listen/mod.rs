//! Accepts connections over TCP, with or without TLS, and over a Unix-domain socket. Passes them on
//! once they speak HTTP/2, or HTTP/1.1 where that is on.
//!
//! tonic's own listener keeps one certificate, waits for silent clients without limit, and counts
//! no connections. Here each new connection has its own task with a time limit, so that none delays
//! the accepting of others.

mod connection;
mod failures;
mod metrics;
mod refused;
mod strangers;
pub(super) mod tls;
mod unix;

pub use connection::Connection;
pub use metrics::Metrics;
pub use tls::{Tls, TlsFiles};
pub use unix::UnixSocket;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use lockkeeper_access::{Access, Identity, Unauthenticated};
use lockkeeper_base::{metrics::Label as _, tasks::spawn_detached};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::mpsc,
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tracing::debug;

use self::{failures::Failures, metrics::Refused, strangers::Strangers};
use super::{Peer, peer::Usage};
use crate::admission::{Admission, Admitted, Full};

/// Limits that apply before a client's first request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent connections.
    pub connections_max: usize,
    /// Concurrent connections from one address.
    pub per_peer_max: usize,
    /// Concurrent connections that have not shown credentials; none: they need none.
    pub unauthenticated_max: Option<usize>,
    /// How long a connection may take to speak HTTP/2.
    pub handshake_timeout: Duration,
    /// When a connection is closed.
    pub connection_age_max: Option<Duration>,
    /// Whether it may also speak HTTP/1.1.
    pub takes_http1: bool,
}

/// The listeners: either or both.
#[derive(Debug, Default)]
pub struct Listeners {
    /// A port, with or without TLS.
    pub tcp: Option<(TcpListener, Option<Arc<Tls>>)>,
    /// A Unix-domain socket.
    pub unix: Option<UnixSocket>,
}

/// Connections that are ready and that the server has not taken yet.
const READY: usize = 64;

/// The accept backlog, sized for all clients reconnecting at once; the machine may allow less. A
/// client that finds it full retries after a second.
const BACKLOG: u32 = 4096;

/// Listens on a port.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Connections of a process that has just ended may still be closing.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts until the stream is dropped, which closes the listeners.
pub fn accept(
    listeners: Listeners,
    limits: Limits,
    access: &Access,
    metrics: &Metrics,
) -> impl tokio_stream::Stream<Item = io::Result<Connection>> {
    let (ready, connections) = mpsc::channel(READY);
    let acceptor = Acceptor {
        admission: Admission::new(limits.connections_max, limits.per_peer_max, metrics.open()),
        strangers: limits
            .unauthenticated_max
            .map(|max| Strangers::new(max, metrics.clone())),
        access: access.clone(),
        metrics: metrics.clone(),
        handshake_timeout: limits.handshake_timeout,
        connection_age_max: limits.connection_age_max,
        takes_http1: limits.takes_http1,
        ready,
    };
    if let Some((listener, tls)) = listeners.tcp {
        spawn_detached("accept", acceptor.clone().over_tcp(listener, tls));
    }
    if let Some(socket) = listeners.unix {
        spawn_detached("accept", acceptor.over_unix(socket));
    }
    ReceiverStream::new(connections).map(Ok)
}

#[derive(Clone)]
struct Acceptor {
    admission: Admission,
    strangers: Option<Strangers>,
    access: Access,
    metrics: Metrics,
    handshake_timeout: Duration,
    connection_age_max: Option<Duration>,
    takes_http1: bool,
    ready: mpsc::Sender<Connection>,
}

// === impl Acceptor ===

impl Acceptor {
    async fn over_tcp(self, listener: TcpListener, tls: Option<Arc<Tls>>) {
        let mut failures = Failures::new(self.metrics.clone());
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.ready.closed() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    failures.pause(&error).await;
                    continue;
                }
            };
            // Without it a grant can wait 40 ms for the acknowledgement of the preceding frame.
            if stream.set_nodelay(true).is_err() {
                continue;
            }
            if let Some(admitted) = self.admit(Some(address.ip())) {
                let peer = Peer {
                    address: Some(address),
                    identity: None,
                    certificate: None,
                    usage: Arc::new(Usage::until(self.connection_age_max)),
                };
                match &self.strangers {
                    Some(strangers) => strangers.add(&peer.usage),
                    None => peer.usage.authenticate(),
                }
                let (tls, access) = (tls.clone(), self.access.clone());
                self.begin(async move { secure(stream, peer, tls, &access, admitted).await });
            }
        }
    }

    async fn over_unix(self, socket: UnixSocket) {
        let mut failures = Failures::new(self.metrics.clone());
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.ready.closed() => return,
                accepted = socket.accept() => accepted,
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    failures.pause(&error).await;
                    continue;
                }
            };
            if let Some(admitted) = self.admit(None) {
                let user = stream.peer_cred().map(|peer| Identity::of_uid(peer.uid()));
                // Who may open the file is trusted not to exhaust the process.
                let usage = Arc::new(Usage::until(self.connection_age_max));
                usage.authenticate();
                let peer = Peer {
                    address: None,
                    identity: user.ok(),
                    certificate: None,
                    usage,
                };
                self.begin(async move { Ok(Connection::over_unix(stream, peer, admitted)) });
            }
        }
    }

    /// None at a limit; the connection is then closed at once, so that its client notices.
    fn admit(&self, from: Option<IpAddr>) -> Option<Admitted> {
        let admitted = self.admission.admit(from);
        if let Err(full) = admitted {
            let limit = match full {
                Full::All => Refused::ConnectionsMax,
                Full::OfPeer => Refused::ConnectionsPerPeerMax,
            };
            self.metrics.refused(limit);
            debug!(limit = limit.value(), "a connection was refused");
            return None;
        }
        admitted.ok()
    }

    /// Waits until a connection speaks HTTP/2, within the time limit.
    fn begin(&self, connection: impl Future<Output = io::Result<Connection>> + Send + 'static) {
        let (ready, limit) = (self.ready.clone(), self.handshake_timeout);
        let (takes_http1, metrics) = (self.takes_http1, self.metrics.clone());
        spawn_detached("handshake", async move {
            let greeted = async { connection.await?.greeted(takes_http1).await };
            match tokio::time::timeout(limit, greeted).await {
                Ok(Ok(connection)) => {
                    drop(ready.send(connection).await);
                    return;
                }
                Ok(Err(error)) => debug!(%error, "a connection came to nothing"),
                Err(_elapsed) => debug!("a connection took too long to begin"),
            }
            metrics.refused(Refused::Handshake);
        });
    }
}

async fn secure(
    stream: TcpStream,
    peer: Peer,
    tls: Option<Arc<Tls>>,
    access: &Access,
    admitted: Admitted,
) -> io::Result<Connection> {
    let Some(tls) = tls else {
        return Ok(Connection::over_tcp(stream, peer, admitted));
    };
    let (stream, named) = refused::noting(tls.acceptor().accept(stream)).await;
    if let Err(error) = &stream {
        let why = match named {
            Some(named) => Some(format!("a client certificate of {named}: {error}")),
            None => refused::shows_none(error).then(|| "no client certificate".to_owned()),
        };
        if let Some(why) = why {
            access.denied(peer.address, "TlsHandshake", &Unauthenticated(why));
        }
    }
    Ok(Connection::over_tls(stream?, peer, &tls, admitted))
}
