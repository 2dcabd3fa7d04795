//! Detects that a server ends a connection at the end of the TLS handshake. With TLS 1.3 the client
//! is done before the server has checked its certificate. A connection seems to be made, and the
//! first call fails in one of several ways.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use tokio::sync::oneshot;

use crate::Wire;

/// The type of encrypted records. The client's first one ends its part of the handshake.
const ENCRYPTED: u8 = 23;

/// The header of an encrypted alert of TLS 1.3. All frames of HTTP/2 are longer.
const ALERT: [u8; 5] = [ENCRYPTED, 3, 3, 0, 19];

/// How many bytes a read takes until the first answer.
const READ_MAX: usize = 512;

/// The encrypted bytes of a connection. Reports what the server sends first after the client's part
/// of the handshake. The report is dropped if that is an alert or the end.
pub(crate) struct Handshake<T> {
    wire: T,
    report: Option<oneshot::Sender<()>>,
    is_client_done: bool,
}

// === impl Handshake ===

impl<T: Wire> Handshake<T> {
    pub(crate) fn new(wire: T, report: Option<oneshot::Sender<()>>) -> Self {
        Self {
            wire,
            report,
            is_client_done: false,
        }
    }
}

impl<T: Wire> Read for Handshake<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.report.is_none() {
            return Pin::new(&mut self.wire).poll_read(cx, buffer);
        }
        let mut bytes = [0; READ_MAX];
        let mut part = ReadBuf::new(&mut bytes[..buffer.remaining().min(READ_MAX)]);
        ready!(Pin::new(&mut self.wire).poll_read(cx, part.unfilled()))?;
        let read = part.filled();
        if self.is_client_done && !read.is_empty() {
            let report = self.report.take().filter(|_| !read.starts_with(&ALERT));
            // The receiver may have timed out.
            report.map(|report| report.send(()));
        }
        buffer.put_slice(read);
        Poll::Ready(Ok(()))
    }
}

impl<T: Wire> Write for Handshake<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.wire).poll_write(cx, bytes);
        if self.report.is_none() {
            return written;
        }
        let written = ready!(written);
        let is_closed = written.as_ref().is_err_and(|error| {
            let kinds = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
            kinds.contains(&error.kind())
        });
        // The server takes no more, and may have said why. Reading finds that, or the end.
        if is_closed {
            return Poll::Ready(Ok(bytes.len()));
        }
        self.is_client_done |= written.is_ok() && bytes.first() == Some(&ENCRYPTED);
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
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
        if self.report.is_none() {
            return Pin::new(&mut self.wire).poll_write_vectored(cx, slices);
        }
        // One by one: each slice begins with a record.
        let first = slices.iter().find(|it| !it.is_empty());
        self.poll_write(cx, first.map_or(&[], |it| it))
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker_ref;

    use super::*;

    /// A server that has sent this; one that takes no more has closed the connection.
    struct Server {
        sent: &'static [u8],
        takes_more: bool,
    }

    impl Read for Server {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            mut buffer: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            buffer.put_slice(std::mem::take(&mut self.sent));
            Poll::Ready(Ok(()))
        }
    }

    impl Write for Server {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let broken = Err(io::ErrorKind::BrokenPipe.into());
            Poll::Ready(if self.takes_more {
                Ok(bytes.len())
            } else {
                broken
            })
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// How many bytes are read.
    fn read(handshake: &mut Handshake<Server>) -> usize {
        let mut bytes = [0; READ_MAX];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut cx = Context::from_waker(noop_waker_ref());
        let done = Pin::new(handshake).poll_read(&mut cx, buffer.unfilled());
        assert!(matches!(done, Poll::Ready(Ok(()))));
        buffer.filled().len()
    }

    fn write(handshake: &mut Handshake<Server>, bytes: &[u8]) -> bool {
        let mut cx = Context::from_waker(noop_waker_ref());
        let written = Pin::new(handshake).poll_write(&mut cx, bytes);
        matches!(written, Poll::Ready(Ok(count)) if count == bytes.len())
    }

    const HELLO: [u8; 3] = [22, 3, 1];
    const FINISHED: [u8; 3] = [ENCRYPTED, 3, 3];

    #[test]
    fn an_answer_after_the_clients_part_is_reported_unless_it_is_an_alert_or_the_end() {
        for (answer, is_reported) in [
            (&[23, 3, 3, 0, 19, 1][..], false),
            (&[23, 3, 3, 0, 60, 1][..], true),
            (&[][..], false),
        ] {
            let (report, mut reported) = oneshot::channel();
            let server = Server {
                sent: &ALERT,
                takes_more: true,
            };
            let mut handshake = Handshake::new(server, Some(report));
            assert!(write(&mut handshake, &HELLO));
            assert_eq!(read(&mut handshake), ALERT.len());
            assert!(reported.try_recv().is_err(), "part of the handshake");
            assert!(write(&mut handshake, &FINISHED));
            handshake.wire.takes_more = false;
            assert!(write(&mut handshake, b"a call"));
            handshake.wire.sent = answer;
            assert_eq!(read(&mut handshake), answer.len());
            assert_eq!(write(&mut handshake, b"a call"), answer.is_empty());
            drop(handshake);
            assert_eq!(reported.try_recv().is_ok(), is_reported);
        }
    }
}
