//! The client and its builder.

use std::{sync::Arc, time::Duration};

use crate::{
    Address, AdminClient, Connector, ElectionClient, Error, LatchClient, LockClient, LockWatch,
    Observer, SemaphoreClient, SessionBuilder, TlsFiles, Token, Transport, dial::Dialled,
    endpoints::Endpoints, free,
};

/// A client of the coordinators of one store. Cheap to clone. It connects when a session is opened
/// or a generated client is asked for.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) endpoints: Endpoints,
}

/// Builds a [`Client`].
#[derive(Clone, Debug, Default)]
pub struct ClientBuilder {
    connector: Connector,
    addresses: Vec<Address>,
}

// === impl Client ===

impl Client {
    /// Makes a client of one coordinator and checks that it answers.
    ///
    /// Fails with [`Error::Misconfigured`] if the address cannot be used, and with
    /// [`Error::Unreachable`] if no connection is made within 5 s.
    pub async fn connect(address: &str) -> Result<Self, Error> {
        let client = Self::builder().endpoint(address)?.build()?;
        client.transport().await?;
        Ok(client)
    }

    /// Makes a client of several coordinators, or one with TLS or a token.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A session to be opened. Each session has a connection of its own.
    pub fn session(&self) -> SessionBuilder {
        SessionBuilder::new(self.endpoints.clone())
    }

    /// A generated client of `LockService` on a new connection, for calls without a session.
    /// Fails like [`transport`](Self::transport).
    pub async fn locks(&self) -> Result<LockClient, Error> {
        self.transport().await.map(LockClient::new)
    }

    /// A generated client of `SemaphoreService` on a new connection.
    /// Fails like [`transport`](Self::transport).
    pub async fn semaphores(&self) -> Result<SemaphoreClient, Error> {
        self.transport().await.map(SemaphoreClient::new)
    }

    /// A generated client of `LatchService` on a new connection.
    /// Fails like [`transport`](Self::transport).
    pub async fn latches(&self) -> Result<LatchClient, Error> {
        self.transport().await.map(LatchClient::new)
    }

    /// A generated client of `ElectionService` on a new connection.
    /// Fails like [`transport`](Self::transport).
    pub async fn elections(&self) -> Result<ElectionClient, Error> {
        self.transport().await.map(ElectionClient::new)
    }

    /// Observes an election, from its present leader on, or after a revision if that is not 0.
    pub fn observe(&self, election: impl Into<String>, after_revision: u64) -> Observer {
        Observer::new(self.endpoints.clone(), election.into(), after_revision)
    }

    /// Waits until a lock has no holder, without acquiring it; any owner may hold it when this
    /// returns. Goes on at the next endpoint if a coordinator or the connection fails. Fails with
    /// [`Error::NotGranted`] if the lock is still held after `limit`; without one it waits forever.
    ///
    /// Also fails with [`Error::Refused`] if the same request would be refused again, and if no
    /// endpoint answers at first. One that is frozen is given up after 10 s.
    pub async fn await_free(
        &self,
        lock: impl Into<String>,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        free::await_free(self.endpoints.clone(), lock.into(), limit).await
    }

    /// Watches what happens to a lock, on all coordinators and by Redisson clients.
    pub fn watch_lock(&self, lock: impl Into<String>) -> LockWatch {
        LockWatch::new(self.endpoints.clone(), lock.into())
    }

    /// A generated client of `LockAdminService` on a new connection, for locks held by other
    /// callers. Fails like [`transport`](Self::transport).
    pub async fn admin(&self) -> Result<AdminClient, Error> {
        self.transport().await.map(AdminClient::new)
    }

    /// A new connection to the first endpoint that accepts one within 5 s.
    ///
    /// Fails with the error of the last endpoint: [`Error::Unreachable`], or
    /// [`Error::Misconfigured`] if a TLS file cannot be used.
    pub async fn transport(&self) -> Result<Transport, Error> {
        self.endpoints.connect().await
    }
}

// === impl ClientBuilder ===

impl ClientBuilder {
    /// Adds a coordinator: `http://HOST:PORT`, `https://HOST:PORT`, `unix:///PATH` or `HOST:PORT`.
    /// Endpoints are tried in the order in which they were added.
    ///
    /// Fails with [`Error::Misconfigured`] if the address has another form.
    pub fn endpoint(self, address: &str) -> Result<Self, Error> {
        Ok(self.address(address.parse()?))
    }

    /// Adds a coordinator by its parsed address.
    #[must_use]
    pub fn address(mut self, address: Address) -> Self {
        self.addresses.push(address);
        self
    }

    /// Sets the certificates for `https://`.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.connector.tls = files;
        self
    }

    /// Sets the bearer token that is sent with every call.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.connector.token = Some(token);
        self
    }

    /// Replaces TCP and Unix sockets by connections of the caller's making.
    #[must_use]
    pub fn dial(mut self, dial: impl Fn(Address) -> Dialled + Send + Sync + 'static) -> Self {
        self.connector.dial = Some(Arc::new(dial));
        self
    }

    /// Makes the client, without connecting.
    ///
    /// Fails with [`Error::Misconfigured`] if there is no endpoint, if a TLS file cannot be read,
    /// or if an endpoint is `https://` and the crate was built without the feature `tls`.
    pub fn build(self) -> Result<Client, Error> {
        let endpoints = Endpoints::new(self.connector, self.addresses)?;
        Ok(Client { endpoints })
    }
}
