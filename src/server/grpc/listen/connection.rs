//! A served connection.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::admission::Admitted;
use crate::grpc::Peer;

/// The first bytes of every HTTP/2 connection.
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection of any kind.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    peer: Peer,
    /// The first bytes, which were read here, and how many of them the server has not read yet.
    beginning: [u8; PREFACE.len()],
    beginning_left: usize,
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
    pub(super) fn over_tls(stream: TlsStream<TcpStream>, peer: Peer, admitted: Admitted) -> Self {
        let certificates = stream.get_ref().1.peer_certificates();
        let own = certificates.and_then(|it| it.first());
        let identity = own.and_then(|own| lockkeeper_access::of_certificate(own));
        let mut peer = peer;
        peer.identity = identity;
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
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
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
