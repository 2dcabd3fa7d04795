//! Batches the writes of one connection that are ready at about the same time.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// A connection that defers each write until all currently runnable tasks have run. The runtime
/// lets a connection write at the first answer, and a small answer costs mostly its system call.
/// Two of three answers had a system call of their own.
#[derive(Debug)]
pub struct CoalescedWrites<S> {
    inner: S,
    /// The write has been deferred and is due now.
    put_off: bool,
}

// === impl CoalescedWrites ===

impl<S> CoalescedWrites<S> {
    /// Batches the writes to `inner`.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            put_off: false,
        }
    }

    /// Pending once in each burst of writes. The writer keeps its buffer, and appends to it
    /// meanwhile.
    fn poll_coalesced(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.put_off {
            return Poll::Ready(());
        }
        self.put_off = true;
        // A task that wakes itself is queued behind all runnable ones.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: Connected> Connected for CoalescedWrites<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.inner.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CoalescedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CoalescedWrites<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_coalesced(cx));
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.poll_coalesced(cx));
        Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
        self.put_off = false;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_burst_is_put_off_once_and_then_written_whole() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut coalesced = CoalescedWrites::new(ours);
        for _ in 0..2 {
            assert!(coalesced.write(b"first").now_or_never().is_none());
            assert!(theirs.read_u8().now_or_never().is_none());
            coalesced
                .write_all(b"first ")
                .now_or_never()
                .unwrap()
                .unwrap();
            coalesced
                .write_all(b"second")
                .now_or_never()
                .unwrap()
                .unwrap();
            coalesced.flush().await.unwrap();
            let mut read = [0; 12];
            theirs.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"first second");
        }
    }

    #[tokio::test]
    async fn a_waiting_write_is_woken() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut coalesced = CoalescedWrites::new(ours);
        coalesced.write_all(b"x").await.unwrap();
        assert_eq!(theirs.read_u8().await.unwrap(), b'x');
    }
}
