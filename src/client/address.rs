//! The address of a coordinator.

use std::{fmt, str::FromStr};

use tonic::transport::Uri;

/// The address of a coordinator: `http://HOST:PORT`, `https://HOST:PORT`, `unix:///PATH/OF/SOCKET`,
/// or `HOST:PORT`, which means `http://`. The port is needed.
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
        let full = match text.split_once("://") {
            Some(("unix", path)) if path.starts_with('/') => return Ok(Self(text.to_owned())),
            Some(("unix", _)) => return refuse("the path of a socket must begin with /"),
            Some(("http" | "https", _)) => text.to_owned(),
            None if !text.is_empty() => format!("http://{text}"),
            _ => return refuse("must be http://HOST:PORT, https://HOST:PORT or unix:///PATH"),
        };
        let Ok(uri) = full.parse::<Uri>() else {
            return refuse("must be one HOST:PORT, with a port up to 65535");
        };
        let authority = uri.authority().filter(|it| !it.host().is_empty());
        // The default port of the scheme is rarely meant, and its server would be sent the token.
        let Some(authority) = authority.filter(|it| it.port_u16().is_some()) else {
            return refuse("needs a host and a port, such as locks:7625");
        };
        if authority.as_str().contains('@') || !["", "/"].contains(&uri.path()) {
            return refuse("only a host and a port are allowed");
        }
        Ok(Self(full.trim_end_matches('/').to_owned()))
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
        assert_eq!(parsed("[::1]:80").unwrap(), "http://[::1]:80");
        assert_eq!(parsed("http://locks:1/").unwrap(), "http://locks:1");
        for wrong in ["", "http://", "unix://run/x", "redis://locks:7625"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_host_with_a_port_is_refused() {
        for (wrong, why) in [
            ("locks", "needs a host and a port"),
            ("https://locks", "needs a host and a port"),
            ("http://[::1]/", "needs a host and a port"),
            ("locks:", "port"),
            ("locks:65536", "port"),
            ("http://locks:http", "port"),
            (":7625", "host"),
            ("::1:7625", "HOST:PORT"),
            ("lo cks:7625", "HOST:PORT"),
            ("a:7625,b:7625", "HOST:PORT"),
            ("me:secret@locks:7625", "only a host"),
            ("http://locks:7625/path", "only a host"),
        ] {
            let refused = wrong.parse::<Address>().unwrap_err().to_string();
            assert!(refused.contains(why), "{wrong}: {refused}");
        }
    }
}
