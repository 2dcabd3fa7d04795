//! The coordinators of one store.

use std::sync::Arc;

use crate::{Address, Connector, Error, Transport};

/// The coordinators of one store, in the order in which they are tried, and how to reach them.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    pub(crate) connector: Connector,
    /// At least one.
    pub(crate) addresses: Arc<[Address]>,
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

pub(crate) fn no_endpoint() -> Error {
    Error::Misconfigured("a client needs an endpoint".to_owned())
}
