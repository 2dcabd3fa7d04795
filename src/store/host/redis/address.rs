//! Where a server is.

use std::fmt;

/// A host, without brackets, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

// === impl Address ===

impl Address {
    /// From `host:port`, where an IPv6 address may be in brackets.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let well_formed = !host.is_empty() && !host.contains(['[', ']']);
        well_formed.then(|| Self {
            host: host.to_owned(),
            port,
        })
    }

    /// From a redirection, which has no host if it is the one that was asked.
    pub(super) fn redirected(text: &str, asked: &Self) -> Option<Self> {
        let port = text.strip_prefix(':').map(str::parse);
        match port {
            Some(Ok(port)) => Some(Self {
                host: asked.host.clone(),
                port,
            }),
            _ => Self::parse(text),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
