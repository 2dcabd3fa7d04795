//! The coordinators of one store.

use std::sync::Arc;

use crate::{Address, Connector, Error, Transport, clock::Clock};

/// The coordinators of one store, in the order in which they are tried, and how to reach them.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    pub(crate) connector: Connector,
    /// At least one.
    pub(crate) addresses: Arc<[Address]>,
    /// That of all sessions.
    pub(crate) clock: Clock,
}

/// Goes from each endpoint that fails to the next, for calls that are made again.
#[derive(Debug)]
pub(crate) struct Rounds {
    endpoints: Endpoints,
    /// The next to try, counted on over all rounds.
    next: usize,
    /// How many have failed since one answered.
    failed: usize,
    /// Whether one has ever answered.
    pub(crate) has_begun: bool,
}

// === impl Endpoints ===

impl Endpoints {
    /// Fails if there is no address, or if one needs TLS files that cannot be read.
    pub(crate) fn new(connector: Connector, addresses: Vec<Address>) -> Result<Self, Error> {
        if addresses.is_empty() {
            return Err(no_endpoint());
        }
        if addresses.iter().any(Address::is_tls) {
            connector.tls.check()?;
        }
        Ok(Self {
            connector,
            addresses: addresses.into(),
            clock: Clock::system(),
        })
    }

    /// Connects to the first that answers. Fails with the error of the last.
    pub(crate) async fn connect(&self) -> Result<Transport, Error> {
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

// === impl Rounds ===

impl Rounds {
    pub(crate) fn new(endpoints: Endpoints) -> Self {
        Self {
            endpoints,
            next: 0,
            failed: 0,
            has_begun: false,
        }
    }

    /// Connects to the next endpoint. From then on another one is next, also if the future is
    /// dropped: a coordinator that is frozen accepts connections, and answers none.
    pub(crate) async fn connect(&mut self) -> Result<Transport, Error> {
        let addresses = &self.endpoints.addresses;
        let address = &addresses[self.next % addresses.len()];
        self.next = self.next.wrapping_add(1);
        self.endpoints.connector.connect(address).await
    }

    /// The endpoint has answered.
    pub(crate) fn on_answer(&mut self) {
        (self.failed, self.has_begun) = (0, true);
    }

    /// The endpoint has failed, or has ended its stream if there is no error. Returns whether to
    /// pause before the next one: after an answer, because others have lost the same coordinator,
    /// and after a round.
    ///
    /// Fails if the same request would be refused again, or if no endpoint answers at first.
    pub(crate) fn on_failed(&mut self, failure: Option<Error>) -> Result<bool, Error> {
        let is_first = self.failed == 0;
        self.failed += 1;
        let is_over = self.failed.is_multiple_of(self.endpoints.addresses.len());
        if let Some(failure) = failure {
            // Another endpoint may need no file that cannot be read.
            let is_of_endpoint = matches!(failure, Error::Misconfigured(_));
            let is_final = !failure.is_retryable() && (is_over || !is_of_endpoint);
            if is_final || (is_over && !self.has_begun) {
                return Err(failure);
            }
        }
        Ok(is_over || (is_first && self.has_begun))
    }
}

pub(crate) fn no_endpoint() -> Error {
    Error::Misconfigured("a client needs an endpoint".to_owned())
}
