//! A connection without TLS that notices if the other end wants it: then what is read first is an
//! alert, and no frame of HTTP/2.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

use super::Wire;

/// How an alert of any version of TLS begins. The first frame of an HTTP/2 server begins with a 0.
const ALERT: [u8; 2] = [21, 3];

/// Enough to know.
const LOOKED_AT: usize = 16;

/// What is to be told instead of what went wrong because of it.
const WANTS_TLS: &str = "what answers there wants TLS, with which the address begins with https://";

/// Bytes to and from a coordinator, as they are.
pub(super) struct Plain<T> {
    wire: T,
    has_begun: bool,
}

// === impl Plain ===

impl<T: Wire> Plain<T> {
    pub(super) fn new(wire: T) -> Self {
        Self {
            wire,
            has_begun: false,
        }
    }

    /// Reads what comes first, which is kept small.
    fn poll_begin(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
    ) -> Poll<io::Result<([u8; LOOKED_AT], usize)>> {
        let mut bytes = [0; LOOKED_AT];
        let mut buffer = ReadBuf::new(&mut bytes[..room.min(LOOKED_AT)]);
        match Pin::new(&mut self.wire).poll_read(cx, buffer.unfilled()) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        }
        let count = buffer.filled().len();
        if buffer.filled().starts_with(&ALERT) {
            let error = io::Error::new(io::ErrorKind::InvalidData, WANTS_TLS);
            return Poll::Ready(Err(error));
        }
        self.has_begun = true;
        Poll::Ready(Ok((bytes, count)))
    }

    /// What failed may have failed because the other end has closed the connection, with an alert
    /// that was not read yet. Whatever closed it, there will be something to read: the alert, or
    /// the end.
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
        match ready!(self.poll_begin(cx, LOOKED_AT)) {
            Err(alert) if alert.kind() == io::ErrorKind::InvalidData => Poll::Ready(Err(alert)),
            _ => Poll::Ready(Err(error)),
        }
    }
}

impl<T: Wire> Read for Plain<T> {
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

impl<T: Wire> Write for Plain<T> {
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
