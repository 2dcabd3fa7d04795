//! A TCP proxy that can fall silent, as a network that drops packets does: nobody is told, nothing arrives.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use lockkeeper::shutdown::spawn_detached;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// A proxy in front of a port of this machine.
pub(crate) struct TcpProxy {
    port: u16,
    /// One switch for each generation of connections: those opened after [`TcpProxy::silence`] work.
    silent: Arc<Mutex<CancellationToken>>,
    /// Where new connections lead.
    target: Arc<AtomicU16>,
    _task: AbortOnDropHandle<()>,
}

// === impl TcpProxy ===

impl TcpProxy {
    /// Starts a proxy to a port.
    pub(crate) async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let silent = Arc::new(Mutex::new(CancellationToken::new()));
        let switch = silent.clone();
        let target = Arc::new(AtomicU16::new(target));
        let leads_to = target.clone();
        let task = spawn_detached("proxy", async move {
            while let Ok((client, _)) = listener.accept().await {
                let silent = switch.lock().clone();
                let target = leads_to.load(Ordering::Relaxed);
                spawn_detached("proxied", carry(client, target, silent));
            }
        });
        Self {
            port,
            silent,
            target,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Where it is.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// New connections lead to another port.
    pub(crate) fn lead_to(&self, target: u16) {
        self.target.store(target, Ordering::Relaxed);
    }

    /// From now on nothing gets through on the connections that are open; new ones work.
    pub(crate) fn silence(&self) {
        std::mem::take(&mut *self.silent.lock()).cancel();
    }

    /// Sets the connections that are open apart: [`TcpProxy::silence`] concerns those that are opened from now on.
    pub(crate) fn spare_open_connections(&self) {
        *self.silent.lock() = CancellationToken::new();
    }
}

async fn carry(client: TcpStream, target: u16, silent: CancellationToken) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = copy(from_client, to_server, silent.clone()) => {}
        () = copy(from_server, to_client, silent) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    silent: CancellationToken,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = tokio::select! {
            () = silent.cancelled() => {
                // Holds the connection open, without a word, until the other end gives up.
                while from.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
                return;
            }
            count = from.read(&mut buffer) => count.unwrap_or(0),
        };
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
