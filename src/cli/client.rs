//! The way to a coordinator.

use std::{fmt, time::Duration};

use tonic::{
    Request,
    transport::{Channel, Endpoint},
};

use super::{exit, failure::Failure};
use crate::grpc::pb::{
    latch_service_client::LatchServiceClient, lock_admin_service_client::LockAdminServiceClient,
    lock_service_client::LockServiceClient, semaphore_service_client::SemaphoreServiceClient,
};

/// The generated client.
pub(super) type Client = LockServiceClient<Channel>;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A silent connection is asked this often whether it lives, and has as long to answer: a dead coordinator is noticed after twice this.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// How long a call that does not wait for a lock may take; longer than a coordinator waits for its store.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a coordinator.
#[derive(Clone, Debug)]
pub(super) struct Server(String);

/// Where to connect, with liveness checks at least every `keepalive`.
pub(super) fn endpoint(server: &Server, keepalive: Duration) -> Result<Endpoint, Failure> {
    let keepalive = keepalive.min(KEEPALIVE);
    let endpoint = Endpoint::from_shared(server.url().to_owned())
        .map_err(|error| Failure::local(exit::USAGE, format!("--server {server}: {error}")))?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(keepalive)
        .keep_alive_timeout(keepalive)
        .keep_alive_while_idle(true))
}

/// Connects. As long as this fails nothing was asked, which is why it is not left to the first call.
pub(super) async fn connect(server: &Server) -> Result<Client, Failure> {
    channel(server).await.map(LockServiceClient::new)
}

/// The same, for semaphores.
pub(super) async fn connect_semaphores(
    server: &Server,
) -> Result<SemaphoreServiceClient<Channel>, Failure> {
    channel(server).await.map(SemaphoreServiceClient::new)
}

/// The same, for latches.
pub(super) async fn connect_latches(
    server: &Server,
) -> Result<LatchServiceClient<Channel>, Failure> {
    channel(server).await.map(LatchServiceClient::new)
}

/// The same, for what is others'.
pub(super) async fn connect_admin(
    server: &Server,
) -> Result<LockAdminServiceClient<Channel>, Failure> {
    channel(server).await.map(LockAdminServiceClient::new)
}

async fn channel(server: &Server) -> Result<Channel, Failure> {
    let connected = endpoint(server, KEEPALIVE)?.connect().await;
    connected.map_err(|error| unreachable(server, &error))
}

/// Nobody answers there.
pub(super) fn unreachable(server: &Server, error: &tonic::transport::Error) -> Failure {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), innermost);
    Failure::unavailable(format!(
        "no coordinator at {server}: {cause}; `lockkeeper serve` starts one, --server or LOCKKEEPER_SERVER names another"
    ))
}

/// A request that does not wait for a lock.
pub(super) fn short<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}

/// The last cause says what happened; those around it say "transport error".
fn innermost(mut error: &(dyn std::error::Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

// === impl Server ===

impl Server {
    /// With or without `http://`.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        match text.split_once("://") {
            Some(("http", _)) => Ok(Self(text.to_owned())),
            Some(("https", _)) => Err("TLS is not supported; connect through a proxy on this host"),
            Some(_) => Err("must be http://HOST:PORT"),
            None => Ok(Self(format!("http://{text}"))),
        }
    }

    fn url(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
