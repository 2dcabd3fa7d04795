//! Connections to coordinators.

use std::{fmt, io, sync::Arc, time::Duration};

use futures::{TryFutureExt as _, future::BoxFuture};
use hyper_util::client::legacy::connect::HttpConnector;
use tonic::{
    Request,
    service::interceptor::InterceptedService,
    transport::{Channel, Endpoint},
};
use tower::{Service as _, service_fn};

use super::{Address, Authorize, Error, TlsFiles, Token, cause, plain::Plain};

/// What the generated stubs send their calls through.
pub type Transport = InterceptedService<Channel, Authorize>;

/// Bytes to and from a coordinator.
pub trait Wire: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static {}

impl<T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static> Wire for T {}

type Dial = dyn Fn(Address) -> BoxFuture<'static, io::Result<Box<dyn Wire>>> + Send + Sync;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A silent connection is asked this often whether it lives, and has as long to answer: a dead
/// coordinator is noticed after twice this.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(5);

/// How long a call that does not wait may take; longer than a coordinator waits for its store.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How to connect, wherever that is.
#[derive(Clone, Default)]
pub struct Connector {
    /// For `https://`.
    pub tls: TlsFiles,
    /// Shown with every call.
    pub token: Option<Token>,
    pub(super) dial: Option<Arc<Dial>>,
}

// === impl Connector ===

impl Connector {
    /// Connects. As long as this fails nothing was asked, which is why it is not left to the first
    /// call.
    pub async fn connect(&self, address: &Address) -> Result<Transport, Error> {
        self.connect_to(address, self.endpoint(address, KEEPALIVE)?)
            .await
    }

    /// Where to connect, with liveness checks at least every `keepalive`.
    pub(super) fn endpoint(
        &self,
        address: &Address,
        keepalive: Duration,
    ) -> Result<Endpoint, Error> {
        let keepalive = keepalive.min(KEEPALIVE);
        let refused =
            |error: tonic::transport::Error| Error::Misconfigured(format!("{address}: {error}"));
        let mut endpoint = Endpoint::from_shared(address.as_str().to_owned()).map_err(refused)?;
        if address.is_tls() {
            endpoint = endpoint.tls_config(self.tls.read()?).map_err(|error| {
                Error::Misconfigured(format!("{address}: {}", cause::in_words(&error)))
            })?;
        }
        Ok(endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(!address.is_unix())
            .http2_keep_alive_interval(keepalive)
            .keep_alive_timeout(keepalive)
            .keep_alive_while_idle(true))
    }

    pub(super) async fn connect_to(
        &self,
        address: &Address,
        endpoint: Endpoint,
    ) -> Result<Transport, Error> {
        let connected = match &self.dial {
            // It notices if it should not have been.
            None if !address.is_tls() && !address.is_unix() => {
                let mut tcp = HttpConnector::new();
                tcp.set_nodelay(true);
                let dial = service_fn(move |to| tcp.call(to).map_ok(Plain::new));
                endpoint.connect_with_connector(dial).await
            }
            None => endpoint.connect().await,
            Some(dial) => {
                let (dial, to) = (Arc::clone(dial), address.clone());
                let dial = service_fn(move |_| dial(to.clone()));
                endpoint.connect_with_connector(dial).await
            }
        };
        let channel = connected.map_err(|error| Error::Unreachable {
            address: address.clone(),
            cause: cause::in_words(&error),
        })?;
        Ok(InterceptedService::new(
            channel,
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

/// A request that does not wait for a lock.
pub fn short<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_TIMEOUT);
    request
}
