//! Connections to coordinators.

use std::{fmt, sync::Arc, time::Duration};

use futures::TryFutureExt as _;
use hyper_util::client::legacy::connect::HttpConnector;
use lockkeeper_api::pb::{
    election_service_client::ElectionServiceClient, latch_service_client::LatchServiceClient,
    lock_admin_service_client::LockAdminServiceClient, lock_service_client::LockServiceClient,
    semaphore_service_client::SemaphoreServiceClient,
};
use tokio::{sync::oneshot, time::timeout};
use tonic::{Request, service::interceptor::InterceptedService, transport::Endpoint};
use tower::{Service as _, service_fn};

use crate::{
    Address, Authorize, Error, TlsFiles, Token,
    dial::Dial,
    first_answer::{ENDED, Handshake},
    grpc_only::GrpcOnly,
    tls_sniff::TlsSniffer,
    transport_error,
};

/// The connection that generated clients send their calls on.
pub type Transport = InterceptedService<GrpcOnly, Authorize>;

/// The generated client of `LockService`, for calls without a session.
pub type LockClient = LockServiceClient<Transport>;

/// The generated client of `SemaphoreService`, for calls without a session.
pub type SemaphoreClient = SemaphoreServiceClient<Transport>;

/// The generated client of `LatchService`, for calls without a session.
pub type LatchClient = LatchServiceClient<Transport>;

/// The generated client of `ElectionService`, for calls without a session.
pub type ElectionClient = ElectionServiceClient<Transport>;

/// The generated client of `LockAdminService`, for locks held by other callers.
pub type AdminClient = LockAdminServiceClient<Transport>;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A silent connection is pinged this often, and has as long to answer: a dead coordinator is
/// noticed after twice this.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// How long a call that does not wait may take; longer than a coordinator waits for its store.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How to connect to any coordinator.
#[derive(Clone, Default)]
pub struct Connector {
    /// The certificates for `https://`.
    pub tls: TlsFiles,
    /// The bearer token that is sent with every call.
    pub token: Option<Token>,
    pub(crate) dial: Option<Arc<Dial>>,
}

// === impl Connector ===

impl Connector {
    /// Connects. A failure means that no call was made, which is why connecting is not left to the
    /// first call.
    ///
    /// Fails with [`Error::Unreachable`] if no connection is made within 5 s or the coordinator
    /// does not accept the client certificate, and with [`Error::Misconfigured`] if the address or
    /// a TLS file cannot be used.
    pub async fn connect(&self, address: &Address) -> Result<Transport, Error> {
        self.connect_to(address, self.endpoint(address, KEEPALIVE)?)
            .await
    }

    /// The address as an endpoint, with a ping at least every `keepalive`.
    pub(crate) fn endpoint(
        &self,
        address: &Address,
        keepalive: Duration,
    ) -> Result<Endpoint, Error> {
        let keepalive = keepalive.min(KEEPALIVE);
        let refused =
            |error: tonic::transport::Error| Error::Misconfigured(format!("{address}: {error}"));
        let mut endpoint = Endpoint::from_shared(address.as_str().to_owned()).map_err(refused)?;
        if address.is_tls() {
            endpoint = self.tls.apply(endpoint, address)?;
        }
        Ok(endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(!address.is_unix())
            .http2_keep_alive_interval(keepalive)
            .keep_alive_timeout(keepalive)
            .keep_alive_while_idle(true))
    }

    pub(crate) async fn connect_to(
        &self,
        address: &Address,
        endpoint: Endpoint,
    ) -> Result<Transport, Error> {
        let (report, first_answer) = oneshot::channel();
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connected = match &self.dial {
            Some(dial) => {
                let (dial, to) = (Arc::clone(dial), address.clone());
                let dial = service_fn(move |_| dial(to.clone()));
                endpoint.connect_with_connector(dial).await
            }
            None if address.is_unix() => endpoint.connect().await,
            None if address.is_tls() => {
                tcp.enforce_http(false);
                let mut report = Some(report);
                let dial = service_fn(move |to| {
                    let report = report.take();
                    tcp.call(to).map_ok(|wire| Handshake::new(wire, report))
                });
                endpoint.connect_with_connector(dial).await
            }
            None => {
                let dial = service_fn(move |to| tcp.call(to).map_ok(TlsSniffer::new));
                endpoint.connect_with_connector(dial).await
            }
        };
        let unreachable = |cause| Error::Unreachable {
            address: address.clone(),
            cause,
        };
        let channel = connected.map_err(|error| unreachable(transport_error::describe(&error)))?;
        if self.dial.is_none()
            && address.is_tls()
            && let Ok(Err(_ended)) = timeout(CONNECT_TIMEOUT, first_answer).await
        {
            return Err(unreachable(ENDED.to_owned()));
        }
        Ok(InterceptedService::new(
            GrpcOnly(channel),
            Authorize(self.token.clone()),
        ))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("tls", &self.tls)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// A request that does not wait for a lock: its call fails after 10 s.
pub fn short<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}
