//! Where to listen.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// An address to listen on; written as an empty text: none.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct OptionalAddress(pub Option<SocketAddr>);

/// Who may connect to a Unix-domain socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnixMode(pub u32);

impl UnixMode {
    /// Reads octal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = (1..=4).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
        let mode = u32::from_str_radix(text, 8)
            .ok()
            .filter(|mode| digits && *mode <= 0o777);
        mode.map(Self)
    }
}

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
