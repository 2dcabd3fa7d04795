//! A client: sessions whose operations are frames on one stream, guards that give back what they
//! hold when they are dropped, and resuming without being asked.
//!
//! ```no_run
//! use std::time::Duration;
//! use crate::Client;
//!
//! # async fn work(_fencing_token: u64) {}
//! # async fn example() -> Result<(), crate::Error> {
//! // If one coordinator goes away, sessions are resumed on the other.
//! let client = Client::builder()
//!     .endpoint("http://locks-1:7625")?
//!     .endpoint("http://locks-2:7625")?
//!     .build()?;
//! let session = client.session().client_name("nightly-report").open().await?;
//! let guard = session
//!     .lock("reports")
//!     .wait_timeout(Duration::from_secs(60))
//!     .acquire()
//!     .await?;
//! tokio::select! {
//!     () = work(guard.fencing_token()) => guard.release().await?,
//!     // Somebody else may have the lock now, or soon: stop at once.
//!     () = guard.lost().cancelled() => eprintln!("lost: {:?}", guard.loss()),
//! }
//! session.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What a guard holds is renewed as long as the process lives, by this client, which so knows until
//! when it holds it whatever happens to the coordinator, and by the coordinator if this client is
//! late. A stream that breaks, or a coordinator that stops, is left for the next endpoint: the
//! session is resumed there with everything it holds, and operations under way are repeated with
//! their request ids, so that none is done twice. Only if no coordinator can be reached for as long
//! as the lease is the session over, and every guard lost.
//!
//! Each acquire has an owner of its own unless it names one, so two tasks of one session exclude
//! each other like any others. Dropping the future of an acquire gives up the wait, and gives back
//! what comes too late.

mod address;
mod cause;
mod connector;
mod credentials;
mod error;
mod guard;
mod link;
mod plain;
mod session;
mod task;
mod thing;

use std::{io, sync::Arc};

use futures::future::BoxFuture;
use lockkeeper_api::pb::{
    latch_service_client::LatchServiceClient, lock_admin_service_client::LockAdminServiceClient,
    lock_service_client::LockServiceClient, semaphore_service_client::SemaphoreServiceClient,
};

use self::thing::Thing;
pub use self::{
    address::Address,
    connector::{Connector, Transport, Wire, short},
    credentials::{Authorize, TlsFiles, Token},
    error::{Error, status_of},
    guard::{Guard, Permits},
    session::{
        Latch, LockRequest, LocksRequest, PermitsRequest, Semaphore, Session, SessionBuilder,
        SessionEvent, SessionEvents, SessionState,
    },
};
pub use self::{cause::of_status as why_broken, error::why_lost};
pub use lockkeeper_api::pb::{LockMode, LostReason, NotGrantedReason};

/// The generated client of `LockService`, for calls without a session.
pub type LockClient = LockServiceClient<Transport>;

/// The same of `SemaphoreService`.
pub type SemaphoreClient = SemaphoreServiceClient<Transport>;

/// The same of `LatchService`.
pub type LatchClient = LatchServiceClient<Transport>;

/// The same of `LockAdminService`.
pub type AdminClient = LockAdminServiceClient<Transport>;

/// How to reach the coordinators of one store. Cheap to clone; connects only when something is
/// asked.
#[derive(Clone, Debug)]
pub struct Client {
    connector: Connector,
    /// At least one.
    addresses: Arc<[Address]>,
}

/// Makes a [`Client`].
#[derive(Clone, Debug, Default)]
pub struct ClientBuilder {
    connector: Connector,
    addresses: Vec<Address>,
}

// === impl Client ===

impl Client {
    /// A client of one coordinator, which is looked for at once.
    pub async fn connect(address: &str) -> Result<Self, Error> {
        let client = Self::builder().endpoint(address)?.build()?;
        client.transport().await?;
        Ok(client)
    }

    /// For several endpoints, TLS or a token.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A session, to be opened. Each has a connection of its own.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self.clone())
    }

    /// The generated client, on a new connection, for calls without a session.
    pub async fn locks(&self) -> Result<LockClient, Error> {
        self.transport().await.map(LockClient::new)
    }

    /// The same, for semaphores.
    pub async fn semaphores(&self) -> Result<SemaphoreClient, Error> {
        self.transport().await.map(SemaphoreClient::new)
    }

    /// The same, for latches.
    pub async fn latches(&self) -> Result<LatchClient, Error> {
        self.transport().await.map(LatchClient::new)
    }

    /// The same, for what is others'.
    pub async fn admin(&self) -> Result<AdminClient, Error> {
        self.transport().await.map(AdminClient::new)
    }

    /// A new connection, to the first endpoint that answers.
    pub async fn transport(&self) -> Result<Transport, Error> {
        let mut failed = None;
        for address in self.addresses.iter() {
            match self.connector.connect(address).await {
                Ok(transport) => return Ok(transport),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(no_endpoint))
    }
}

fn no_endpoint() -> Error {
    Error::Misconfigured("a client needs an endpoint".to_owned())
}

// === impl ClientBuilder ===

impl ClientBuilder {
    /// Adds a coordinator: `http://HOST:PORT`, `https://HOST:PORT` or `unix:///PATH`. Those added
    /// first are tried first.
    pub fn endpoint(mut self, address: &str) -> Result<Self, Error> {
        self.addresses.push(address.parse()?);
        Ok(self)
    }

    /// Adds a coordinator whose address is parsed already.
    #[must_use]
    pub fn address(mut self, address: Address) -> Self {
        self.addresses.push(address);
        self
    }

    /// Certificates for `https://`.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.connector.tls = files;
        self
    }

    /// A token to show with every call.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.connector.token = Some(token);
        self
    }

    /// Makes connections in another way than over TCP or a Unix socket.
    #[must_use]
    pub fn dial(
        mut self,
        dial: impl Fn(Address) -> BoxFuture<'static, io::Result<Box<dyn Wire>>> + Send + Sync + 'static,
    ) -> Self {
        self.connector.dial = Some(Arc::new(dial));
        self
    }

    /// Fails if there is no endpoint, or if TLS files cannot be read. Does not connect.
    pub fn build(self) -> Result<Client, Error> {
        if self.addresses.is_empty() {
            return Err(no_endpoint());
        }
        if self.addresses.iter().any(Address::is_tls) {
            self.connector.tls.read()?;
        }
        Ok(Client {
            connector: self.connector,
            addresses: self.addresses.into(),
        })
    }
}
