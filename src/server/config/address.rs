//! Listen addresses and socket modes.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A listen address; the empty string: none.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct OptionalAddress(pub Option<SocketAddr>);

/// The mode of a Unix-domain socket, which determines who may connect: up to four octal digits.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct UnixMode(pub u32);

impl Default for UnixMode {
    /// The same user only.
    fn default() -> Self {
        Self(0o600)
    }
}

impl TryFrom<String> for UnixMode {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digits = (1..=4).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit());
        let mode = u32::from_str_radix(&text, 8).ok();
        mode.filter(|mode| digits && *mode <= 0o777)
            .map(Self)
            .ok_or("must be up to four octal digits, as in 0600 or 0660")
    }
}

impl From<UnixMode> for String {
    fn from(mode: UnixMode) -> Self {
        format!("{:04o}", mode.0)
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
            .map_err(|_| "must be an IP address with a port, such as 127.0.0.1:7625, or empty")
    }
}

impl From<OptionalAddress> for String {
    fn from(address: OptionalAddress) -> Self {
        address
            .0
            .map_or_else(Self::new, |address| address.to_string())
    }
}
