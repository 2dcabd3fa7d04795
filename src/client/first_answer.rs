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

/// Why the server ends the connection cannot be seen: the alert is encrypted.
pub(crate) const ENDED: &str = "the server ended the TLS handshake: it may require a client \
                                certificate, or not accept this one (--certificate-file)";

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
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
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
        // Each slice begins with a record.
        let is_encrypted = |it: &io::IoSlice<'_>| it.first() == Some(&ENCRYPTED);
        self.is_client_done |= slices.iter().any(is_encrypted);
        let written = Pin::new(&mut self.wire).poll_write_vectored(cx, slices);
        let is_refused = self.report.is_some() && self.is_client_done;
        written.map_err(|error| match error.kind() {
            kind @ (io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) if is_refused => {
                io::Error::new(kind, ENDED)
            }
            _ => error,
        })
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

    fn write(handshake: &mut Handshake<Server>, bytes: &[u8]) -> Result<usize, String> {
        let mut cx = Context::from_waker(noop_waker_ref());
        match Pin::new(handshake).poll_write(&mut cx, bytes) {
            Poll::Ready(written) => written.map_err(|error| error.to_string()),
            Poll::Pending => panic!("it waits"),
        }
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
            write(&mut handshake, &HELLO).unwrap();
            assert_eq!(read(&mut handshake), ALERT.len());
            assert!(reported.try_recv().is_err(), "part of the handshake");
            write(&mut handshake, &FINISHED).unwrap();
            handshake.wire.sent = answer;
            assert_eq!(read(&mut handshake), answer.len());
            drop(handshake);
            assert_eq!(reported.try_recv().is_ok(), is_reported);
        }
    }

    #[test]
    fn a_write_that_fails_before_an_answer_is_explained() {
        let (report, _reported) = oneshot::channel();
        let server = Server {
            sent: &[23, 3, 3, 0, 60, 1],
            takes_more: false,
        };
        let mut handshake = Handshake::new(server, Some(report));
        assert_eq!(write(&mut handshake, &HELLO).unwrap_err(), "broken pipe");
        assert_eq!(write(&mut handshake, &FINISHED).unwrap_err(), ENDED);
        read(&mut handshake);
        assert_eq!(write(&mut handshake, b"a call").unwrap_err(), "broken pipe");
    }
}
