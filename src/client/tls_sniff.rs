//! Detects that a connection without TLS has reached a server with TLS, or one of HTTP/1.1: the
//! first bytes are then a TLS alert or a status line, and no frame of HTTP/2.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use crate::Wire;

/// The first bytes of an alert in any version of TLS. HTTP/2 servers begin with a 0.
const ALERT: [u8; 2] = [21, 3];

/// How many bytes the first read may take; more than an alert needs.
const FIRST_READ_MAX: usize = 16;

/// The cause of whatever fails because of it.
const WANTS_TLS: &str = "the server uses TLS: use https://";

/// The first bytes of an answer of HTTP/1.1.
const HTTP1: &[u8] = b"HTTP/1.";

/// The same.
const NO_GRPC: &str =
    "the server does not speak gRPC: is this the admin port? The default port is 7625";

/// The server closed the connection before it said anything, as one of HTTP/1.1 may do.
const CLOSED: &str =
    "the server closed the connection at once: is it the gRPC port? The default port is 7625";

/// A connection without TLS whose first read fails if it is a TLS alert.
pub(crate) struct TlsSniffer<T> {
    wire: T,
    has_begun: bool,
}

// === impl TlsSniffer ===

impl<T: Wire> TlsSniffer<T> {
    pub(crate) fn new(wire: T) -> Self {
        Self {
            wire,
            has_begun: false,
        }
    }

    /// The first read. Fails if it is an alert.
    fn poll_begin(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
    ) -> Poll<io::Result<([u8; FIRST_READ_MAX], usize)>> {
        let mut bytes = [0; FIRST_READ_MAX];
        let mut buffer = ReadBuf::new(&mut bytes[..room.min(FIRST_READ_MAX)]);
        match ready!(Pin::new(&mut self.wire).poll_read(cx, buffer.unfilled())) {
            Ok(()) => {}
            // What the server has not read of ours makes its end a reset.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
        let count = buffer.filled().len();
        let found = match buffer.filled() {
            [] => Some((io::ErrorKind::ConnectionReset, CLOSED)),
            bytes if bytes.starts_with(&ALERT) => Some((io::ErrorKind::InvalidData, WANTS_TLS)),
            bytes if bytes.starts_with(HTTP1) => Some((io::ErrorKind::InvalidData, NO_GRPC)),
            _ => None,
        };
        if let Some((kind, found)) = found {
            return Poll::Ready(Err(io::Error::new(kind, found)));
        }
        self.has_begun = true;
        Poll::Ready(Ok((bytes, count)))
    }

    /// Replaces a failure by the alert that explains it: the server may have closed the connection
    /// after an alert that was not read yet. There is always something to read: the alert, or the
    /// end.
    fn or_alert<R>(
        &mut self,
        cx: &mut Context<'_>,
        done: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let Poll::Ready(Err(error)) = done else {
            return done;
        };
        let is_closed = matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
        );
        if self.has_begun || !is_closed {
            return Poll::Ready(Err(error));
        }
        match ready!(self.poll_begin(cx, FIRST_READ_MAX)) {
            Err(found) if found.get_ref().is_some() => Poll::Ready(Err(found)),
            _ => Poll::Ready(Err(error)),
        }
    }
}

impl<T: Wire> Read for TlsSniffer<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.has_begun {
            return Pin::new(&mut self.wire).poll_read(cx, buffer);
        }
        self.poll_begin(cx, buffer.remaining()).map_ok(|read| {
            let (bytes, count) = read;
            buffer.put_slice(&bytes[..count]);
        })
    }
}

impl<T: Wire> Write for TlsSniffer<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.wire).poll_write(cx, bytes);
        self.or_alert(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.wire).poll_flush(cx);
        self.or_alert(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.wire).poll_write_vectored(cx, slices);
        self.or_alert(cx, written)
    }
}
