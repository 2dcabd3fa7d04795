//! The server's end of a connection in memory, with whoever is at the other end.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_server::grpc::Peer;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

pub(super) const BUFFER: usize = 64 * 1024;

pub(crate) struct Arrived {
    pub(crate) stream: DuplexStream,
    pub(crate) peer: Peer,
}

impl Connected for Arrived {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Arrived {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Arrived {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Carries bytes both ways until cut, which each side sees as a connection that broke.
pub(super) fn pump(near: DuplexStream, far: DuplexStream, cut: CancellationToken) {
    spawn_detached("pump", async move {
        let (mut near, mut far) = (near, far);
        tokio::select! {
            () = cut.cancelled() => {}
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        }
    });
}
