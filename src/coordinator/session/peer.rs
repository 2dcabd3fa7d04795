//! The origin of a stream.

use std::{fmt, net::SocketAddr};

/// The origin of a session's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// A host and its port.
    Tcp(SocketAddr),
    /// A Unix socket of this machine.
    Unix,
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
        }
    }
}
