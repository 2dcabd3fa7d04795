//! A TCP proxy that can fall silent, as a network that drops packets does: nobody is told, nothing
//! arrives. Or arrives when the network is back.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    },
};

use lockkeeper_base::tasks::spawn_detached;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// Ports that are spoken of, and those that are named instead.
type Renamed = Arc<[(u16, u16)]>;

/// A proxy in front of a port of this machine.
pub struct TcpProxy {
    port: u16,
    /// One switch for each generation of connections: those opened after [`TcpProxy::silence`]
    /// work.
    silent: Arc<Mutex<CancellationToken>>,
    /// Where new connections lead.
    target: Arc<AtomicU16>,
    /// Whether what comes is kept until this is over.
    cut: watch::Sender<bool>,
    _task: AbortOnDropHandle<()>,
}

// === impl TcpProxy ===

impl TcpProxy {
    /// Starts a proxy to a port.
    pub async fn to(target: u16) -> Self {
        Self::renaming(target, &[]).await
    }

    /// Starts a proxy to a server that tells its clients where others are. It puts a proxy's port
    /// in the place of each server's own.
    pub async fn renaming(target: u16, ports: &[(u16, u16)]) -> Self {
        Self::on(Self::listener().await, target, ports)
    }

    /// Where a proxy can be started, whose port others may have to be told before that.
    pub async fn listener() -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        listener.expect("a free port")
    }

    /// The same as [`renaming`](Self::renaming), there.
    pub fn on(listener: TcpListener, target: u16, ports: &[(u16, u16)]) -> Self {
        let renamed: Renamed = ports.into();
        let port = listener.local_addr().expect("its address").port();
        let silent = Arc::new(Mutex::new(CancellationToken::new()));
        let switch = silent.clone();
        let target = Arc::new(AtomicU16::new(target));
        let leads_to = target.clone();
        let (cut, is_cut) = watch::channel(false);
        let task = spawn_detached("proxy", async move {
            while let Ok((client, _)) = listener.accept().await {
                let wire = Wire {
                    silent: switch.lock().clone(),
                    cut: is_cut.clone(),
                };
                let target = leads_to.load(Ordering::Relaxed);
                spawn_detached("proxied", carry(client, target, wire, renamed.clone()));
            }
        });
        Self {
            port,
            silent,
            target,
            cut,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// New connections lead to another port.
    pub fn lead_to(&self, target: u16) {
        self.target.store(target, Ordering::Relaxed);
    }

    /// From now on nothing gets through on the connections that are open; new ones work.
    pub fn silence(&self) {
        std::mem::take(&mut *self.silent.lock()).cancel();
    }

    /// From now on nothing gets through, on new connections neither. What is sent meanwhile arrives
    /// after [`TcpProxy::heal`], as a network would send it again.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// The network is back.
    pub fn heal(&self) {
        self.cut.send_replace(false);
    }

    /// Sets the connections that are open apart: [`TcpProxy::silence`] concerns those that are
    /// opened from now on.
    pub fn spare_open_connections(&self) {
        *self.silent.lock() = CancellationToken::new();
    }
}

/// What can happen to a connection.
#[derive(Clone)]
struct Wire {
    silent: CancellationToken,
    cut: watch::Receiver<bool>,
}

async fn carry(client: TcpStream, target: u16, wire: Wire, renamed: Renamed) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = copy(from_client, to_server, wire.clone(), Renamed::default()) => {}
        () = copy(from_server, to_client, wire, renamed) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut wire: Wire,
    renamed: Renamed,
) {
    let mut buffer = vec![0; 16 * 1024];
    let mut held_back = Vec::new();
    loop {
        let count = tokio::select! {
            () = wire.silent.cancelled() => {
                // Holds the connection open, without a word, until the other end gives up.
                while from.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
                return;
            }
            count = from.read(&mut buffer) => count.unwrap_or(0),
        };
        if wire.cut.wait_for(|is_cut| !is_cut).await.is_err() || count == 0 {
            return;
        }
        let sent = if renamed.is_empty() {
            to.write_all(&buffer[..count]).await
        } else {
            held_back.extend_from_slice(&buffer[..count]);
            let text = rename(&mut held_back, &renamed);
            to.write_all(&text).await
        };
        if sent.is_err() {
            return;
        }
    }
}

/// What can be passed on, with other ports. Digits at the end stay, because the rest of a number
/// may follow; no answer ends with one. All ports that are renamed have five digits, and so have
/// those in their place: the lengths in front of texts stay true.
fn rename(text: &mut Vec<u8>, ports: &[(u16, u16)]) -> Vec<u8> {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit());
    let rest = text.split_off(text.len() - digits.count());
    let mut renamed = std::mem::replace(text, rest);
    for (port, other) in ports {
        let (port, other) = (port.to_string(), other.to_string());
        assert_eq!((port.len(), other.len()), (5, 5), "ports of five digits");
        let is_port = |at: usize, text: &[u8]| {
            let before = at.checked_sub(1).and_then(|at| text.get(at));
            let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
            text[at..].starts_with(port.as_bytes())
                && !is_digit(before)
                && !is_digit(text.get(at + port.len()))
        };
        for at in 0..renamed.len() {
            if is_port(at, &renamed) {
                renamed[at..at + other.len()].copy_from_slice(other.as_bytes());
            }
        }
    }
    renamed
}

#[test]
fn ports_are_renamed_also_when_they_come_in_pieces() {
    let mut text = b"$5\r\n40001\r\n140001 400010 40".to_vec();
    let sent = rename(&mut text, &[(40001, 50001)]);
    assert_eq!(sent, b"$5\r\n50001\r\n140001 400010 ");
    text.extend_from_slice(b"001\r\n");
    assert_eq!(rename(&mut text, &[(40001, 50001)]), b"50001\r\n");
}
