//! The address of a coordinator.

use std::{fmt, str::FromStr};

/// The address of a coordinator: `http://HOST:PORT`, `https://HOST:PORT`, `unix:///PATH/OF/SOCKET`,
/// or `HOST:PORT`, which means `http://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

/// A text that is no [`Address`]: it has another form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}: {cause}")]
pub struct InvalidAddress {
    text: String,
    cause: &'static str,
}

// === impl Address ===

impl Address {
    /// The address as a URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        self.0.starts_with("https://")
    }

    pub(crate) fn is_unix(&self) -> bool {
        self.0.starts_with("unix:")
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let refuse = |cause| {
            let text = text.to_owned();
            Err(InvalidAddress { text, cause })
        };
        match text.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self(text.to_owned())),
            Some(("unix", _)) => refuse("the path of a socket must begin with /"),
            Some(("http" | "https", rest)) if !rest.is_empty() => Ok(Self(text.to_owned())),
            None if !text.is_empty() => Ok(Self(format!("http://{text}"))),
            _ => refuse("must be http://HOST:PORT, https://HOST:PORT or unix:///PATH"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls_or_host_and_port() {
        let parsed = |text: &str| text.parse::<Address>().map(|it| it.to_string());
        assert_eq!(parsed("10.0.0.1:7625").unwrap(), "http://10.0.0.1:7625");
        assert_eq!(parsed("https://locks:7625").unwrap(), "https://locks:7625");
        assert_eq!(
            parsed("unix:///run/lockkeeper.sock").unwrap(),
            "unix:///run/lockkeeper.sock"
        );
        for wrong in ["", "http://", "unix://run/x", "redis://locks:7625"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
