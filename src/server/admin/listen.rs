//! Serves connections of the admin port: few of them, and none that is slow to ask.

use std::{convert::Infallible, future::Future, net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulConnection, GracefulShutdown},
};
use lockkeeper_base::tasks::spawn_detached;
use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tower::Service as _;
use tracing::debug;

use crate::{admission::Admission, unread::closed_if_unread};

/// Connections from one address.
const PER_PEER_MAX: usize = 32;

/// How long a client may take to send the headers of a request, the first as well as the next.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);

/// How long the answer to a request may take to begin, including the rest of the request.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);

/// The pause after a failure to accept, for instance until a file descriptor is free.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` resolves, and then the requests in progress. Connections beyond
/// `connections_max` are closed at once.
pub(super) async fn serve(
    routes: Router,
    listener: TcpListener,
    connections_max: usize,
    stop: impl Future<Output = ()>,
) {
    let admission = Admission::new(connections_max, PER_PEER_MAX, Gauge::default());
    let connections = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => match admission.admit(Some(peer.ip())) {
                Ok(admitted) => {
                    let serving = connections.watch(connection(routes.clone(), stream, peer));
                    spawn_detached("admin-connection", async move {
                        let _admitted = admitted;
                        if let Err(error) = serving.await {
                            debug!(%error, %peer, "an admin connection has failed");
                        }
                    });
                }
                Err(full) => debug!(?full, %peer, "an admin connection was refused"),
            },
            Err(error) => {
                debug!(%error, "cannot accept an admin connection");
                sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}

fn connection(
    routes: Router,
    stream: TcpStream,
    peer: SocketAddr,
) -> impl GracefulConnection<Error = hyper::Error> + Send {
    let answer = service_fn(move |request| answer(routes.clone(), request, peer));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(closed_if_unread(stream)), answer)
}

async fn answer(
    mut routes: Router,
    request: Request<Incoming>,
    peer: SocketAddr,
) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(peer));
    let answered = timeout(ANSWERED_WITHIN, routes.call(request)).await;
    answered.unwrap_or_else(|_| Ok(StatusCode::REQUEST_TIMEOUT.into_response()))
}
