//! An address to listen on, or none.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// An address to listen on; written as an empty text: none.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct OptionalAddress(pub Option<SocketAddr>);

impl TryFrom<String> for OptionalAddress {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let address = text.parse();
        address
            .map(|address| Self(Some(address)))
            .map_err(|_| "must be an address with a port, or empty")
    }
}

impl From<OptionalAddress> for String {
    fn from(address: OptionalAddress) -> Self {
        address
            .0
            .map_or_else(Self::new, |address| address.to_string())
    }
}
