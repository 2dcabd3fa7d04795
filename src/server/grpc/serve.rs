//! Serves connections: those of HTTP/2 by tonic, those of HTTP/1.1 here. tonic's own connections of
//! HTTP/1.1 may send 400 kB of headers each before anything is known of their client.

use std::{future::Future, io, time::Duration};

use futures::FutureExt as _;
use http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use lockkeeper_base::tasks::spawn_detached;
use tokio::time::timeout;
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{
    body::Body,
    service::Routes,
    transport::{self, Server, server::Connected},
};
use tower::{Layer, ServiceExt as _};
use tracing::debug;

use super::{Config, Layers, coalesced_writes::CoalescedWrites, listen::Connection};
use crate::unread::closed_if_unread;

/// The least that hyper takes for the size of its buffers.
const BUFFER_MIN: usize = 8 * 1024;

/// What answers a request.
pub type Service = <Layers as Layer<Routes>>::Service;

/// All services behind their layers. Cheap to clone, but for what is served.
#[derive(Clone, Debug)]
pub struct Services {
    server: Server,
    service: Service,
    http1: Http1,
}

/// How connections of HTTP/1.1 are served.
#[derive(Clone, Copy, Debug)]
struct Http1 {
    /// The size of a request's headers.
    header_bytes: usize,
    /// How long the headers of the next request may take, and how long a connection may be idle.
    idle_for: Duration,
    age_max: Option<Duration>,
}

// === impl Services ===

impl Services {
    pub(super) fn new(server: Server, service: Service, config: &Config) -> Self {
        let header_bytes = usize::try_from(config.header_list_bytes_max).unwrap_or(usize::MAX);
        let http1 = Http1 {
            header_bytes: header_bytes.max(BUFFER_MIN),
            idle_for: config.keepalive_interval + config.keepalive_timeout,
            age_max: config.connection_age_max,
        };
        Self {
            server,
            service,
            http1,
        }
    }

    /// What answers a request.
    pub fn service(&self) -> Service {
        self.service.clone()
    }

    /// Serves connections of HTTP/2 for as long as they come.
    pub async fn serve_http2<I>(
        self,
        incoming: impl Stream<Item = io::Result<I>>,
    ) -> Result<(), transport::Error>
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Connected + Unpin + Send + 'static,
    {
        self.server
            .serve_with_incoming(self.service, incoming)
            .await
    }

    /// Serves connections until `stop` resolves, and then the calls in progress.
    pub async fn serve(
        self,
        accepted: impl Stream<Item = io::Result<Connection>>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), transport::Error> {
        let (stopped, connections) = (CancellationToken::new(), TaskTracker::new());
        let http2 = accepted.filter_map(|connection| match connection {
            Ok(connection) if connection.speaks_http1() => {
                let serving = self
                    .http1
                    .serve(self.service(), connection, stopped.clone());
                spawn_detached("http1", connections.track_future(serving));
                None
            }
            connection => Some(connection.map(CoalescedWrites::new)),
        });
        let stop = stop.map(|()| stopped.cancel());
        let tonic = self.server.clone();
        let ended = tonic.serve_with_incoming_shutdown(self.service(), http2, stop);
        let ended = ended.await;
        stopped.cancel();
        connections.close();
        connections.wait().await;
        ended
    }
}

// === impl Http1 ===

impl Http1 {
    async fn serve(self, service: Service, connection: Connection, stopped: CancellationToken) {
        let peer = connection.connect_info();
        let answer = service_fn(|request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer.clone());
            service.clone().oneshot(request)
        });
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.idle_for)
            .max_buf_size(self.header_bytes)
            .serve_connection(TokioIo::new(closed_if_unread(connection)), answer);
        // Stopped or aged.
        let ended = async {
            match self.age_max {
                Some(age) => drop(timeout(age, stopped.cancelled()).await),
                None => stopped.cancelled().await,
            }
        };
        tokio::pin!(serving);
        let served: Result<(), hyper::Error> = tokio::select! {
            served = &mut serving => served,
            () = ended => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        };
        if let Err(error) = served {
            debug!(%error, "a connection of HTTP/1.1 has failed");
        }
    }
}
