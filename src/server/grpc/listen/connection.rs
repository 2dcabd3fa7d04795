//! A served connection.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
    time::{Sleep, sleep},
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::tls::{ClientCertificate, Tls};
use crate::{admission::Admitted, grpc::Peer};

/// The first bytes of every HTTP/2 connection.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes that are read at once from a connection without credentials. Its calls are begun
/// before more is read, so that they count; they are few, so that others' turn comes soon.
const STRANGER_READS: usize = 512;

/// The bytes of a connection without credentials between two pauses. A client that has credentials
/// shows them in the first few hundred; what is beyond is a probe, or a flood.
const STRANGER_BYTES: usize = 16 << 10;

/// The length of a pause.
const STRANGER_PAUSE: Duration = Duration::from_secs(1);

/// A connection of any kind.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    peer: Peer,
    /// The first bytes, which were read here, and how many of them the server has not read yet.
    beginning: [u8; PREFACE.len()],
    beginning_left: usize,
    /// It has been read without credentials; others' turn is next.
    has_read: bool,
    /// The bytes read without credentials since the last pause.
    read: usize,
    pause: Option<Pin<Box<Sleep>>>,
    _admitted: Admitted,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
}

// === impl Connection ===

impl Connection {
    pub(super) fn over_tcp(stream: TcpStream, peer: Peer, admitted: Admitted) -> Self {
        Self::new(Stream::Tcp(stream), peer, admitted)
    }

    /// The identity is that of the client certificate, if one is required.
    pub(super) fn over_tls(
        stream: TlsStream<TcpStream>,
        peer: Peer,
        tls: &Arc<Tls>,
        admitted: Admitted,
    ) -> Self {
        let certificates = stream.get_ref().1.peer_certificates();
        let certificate = certificates.map(|chain| ClientCertificate::new(tls, chain));
        let own = certificates.and_then(|it| it.first());
        let identity = own.and_then(|own| lockkeeper_access::of_certificate(own));
        let mut peer = peer;
        if identity.is_some() {
            peer.usage.authenticate();
        }
        peer.identity = identity;
        peer.certificate = certificate;
        Self::new(Stream::Tls(Box::new(stream)), peer, admitted)
    }

    pub(super) fn over_unix(stream: UnixStream, peer: Peer, admitted: Admitted) -> Self {
        Self::new(Stream::Unix(stream), peer, admitted)
    }

    fn new(stream: Stream, peer: Peer, admitted: Admitted) -> Self {
        Self {
            stream,
            peer,
            beginning: PREFACE,
            beginning_left: 0,
            has_read: false,
            read: 0,
            pause: None,
            _admitted: admitted,
        }
    }

    /// Reads the first bytes, for the server to read again; no HTTP/1.1 request is shorter. From
    /// here on the server itself detects silent clients.
    pub(super) async fn greeted(mut self, takes_http1: bool) -> io::Result<Self> {
        let mut beginning = [0; PREFACE.len()];
        self.read_exact(&mut beginning).await?;
        if beginning != PREFACE && !takes_http1 {
            let why = "it does not begin as HTTP/2 does";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        self.beginning = beginning;
        self.beginning_left = beginning.len();
        Ok(self)
    }

    /// Whether it has not begun as HTTP/2 does.
    pub(in crate::grpc) fn speaks_http1(&self) -> bool {
        self.beginning != PREFACE
    }

    /// Reads a connection that has not shown credentials: a little at a time, with pauses, and no
    /// more once it is to be closed.
    fn poll_read_slowly(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.has_read {
            self.has_read = false;
            // A task that wakes itself is queued behind all runnable ones.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.peer.usage.is_closed_for(cx.waker()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if self.read >= STRANGER_BYTES {
            let pause = self
                .pause
                .get_or_insert_with(|| Box::pin(sleep(STRANGER_PAUSE)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
            self.read = 0;
        }
        let count = buffer.remaining().min(STRANGER_READS);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(count));
        let read = self.stream.poll_read(cx, &mut part);
        let count = part.filled().len();
        buffer.advance(count);
        self.has_read = count > 0;
        self.read += count;
        read
    }
}

// === impl Stream ===

impl Stream {
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.beginning_left > 0 {
            let count = self.beginning_left.min(buffer.remaining());
            let from = self.beginning.len() - self.beginning_left;
            buffer.put_slice(&self.beginning[from..from + count]);
            self.beginning_left -= count;
            return Poll::Ready(Ok(()));
        }
        if self.peer.usage.is_authenticated() {
            return self.stream.poll_read(cx, buffer);
        }
        self.poll_read_slowly(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
            Stream::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::gauge::Gauge;
    use tokio::{io::AsyncWriteExt as _, net::TcpListener, time::Instant};

    use super::*;
    use crate::admission::Admission;

    #[tokio::test(start_paused = true)]
    async fn a_flood_without_credentials_is_read_with_pauses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let admitted = Admission::new(1, 1, Gauge::default()).admit(None).unwrap();
        let mut connection = Connection::over_tcp(stream, Peer::default(), admitted);
        let begun = Instant::now();
        let mut take = async |connection: &mut Connection| {
            client
                .write_all(&vec![0; 2 * STRANGER_BYTES])
                .await
                .unwrap();
            let mut taken = vec![0; 2 * STRANGER_BYTES];
            connection.read_exact(&mut taken).await.unwrap();
            begun.elapsed().as_secs()
        };
        assert_eq!(take(&mut connection).await, 1);
        assert_eq!(take(&mut connection).await, 3);
        connection.peer.usage.authenticate();
        assert_eq!(take(&mut connection).await, 3, "credentials were shown");
    }
}
