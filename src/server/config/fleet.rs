//! The other coordinators of the store.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

/// Names of hosts are shorter.
const ADDRESS_BYTES_MAX: usize = 300;

/// The other coordinators of the store. They trust each other if they have the same session secret.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fleet {
    /// Where other coordinators reach the gRPC port of this one: `https://HOST:PORT`,
    /// `http://HOST:PORT`, or an IP address, to which the port of `server.listen` is added; empty:
    /// it does not know the others, nor they it.
    pub address: String,
    /// The trusted authorities (PEM) of the certificates of the others; empty: those of the system.
    pub ca_file: PathBuf,
    /// The client certificate for the others (PEM), with `key_file`.
    pub certificate_file: PathBuf,
    /// The key of `certificate_file`.
    pub key_file: PathBuf,
    /// The name in the certificates of the others; empty: the host of their address.
    pub server_name: String,
}

// === impl Fleet ===

impl Fleet {
    /// The address as a URL, of a coordinator that listens on this port.
    pub(crate) fn url(&self, port: u16, has_tls: bool) -> String {
        let scheme = if has_tls { "https" } else { "http" };
        match self.address.parse::<IpAddr>() {
            Ok(ip) => format!("{scheme}://{}", SocketAddr::new(ip, port)),
            Err(_) => self.address.clone(),
        }
    }

    /// Why the address cannot be used, if so.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let uri: Option<http::Uri> = self.address.parse().ok();
        let is_url = uri.is_some_and(|uri| {
            let scheme = uri.scheme_str().unwrap_or_default();
            let is_bare = ["", "/"].contains(&uri.path()) && uri.query().is_none();
            let has_host = uri.host().is_some_and(|host| !host.is_empty());
            let is_known = ["http", "https"].contains(&scheme);
            is_known && is_bare && has_host && uri.port_u16().is_some()
        });
        let is_address = is_url || self.address.parse::<IpAddr>().is_ok();
        let is_good = self.address.is_empty() || is_address;
        let problem = "must be https://HOST:PORT, http://HOST:PORT, an IP address, or empty";
        (!is_good || self.address.len() > ADDRESS_BYTES_MAX).then_some(problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Fleet {
        Fleet {
            address: address.to_owned(),
            ..Fleet::default()
        }
    }

    #[test]
    fn an_address_is_a_url_or_an_ip_address() {
        let good = [
            "",
            "http://10.0.0.7:7625",
            "https://a:1",
            "http://[::1]:7625",
            "fd00::7",
        ];
        for good in good {
            assert_eq!(at(good).problem(), None, "{good}");
        }
        let long = format!("http://{}:7625", "x".repeat(300));
        let bad = [
            "10.0.0.7:7625",
            "http://a",
            "unix:///x",
            "http://a:1/x",
            "a",
            &long,
        ];
        for bad in bad {
            assert!(at(bad).problem().is_some(), "{bad}");
        }
    }

    #[test]
    fn an_ip_address_gets_the_port_of_the_listener() {
        assert_eq!(at("fd00::7").url(7625, true), "https://[fd00::7]:7625");
        assert_eq!(at("10.0.0.7").url(7625, false), "http://10.0.0.7:7625");
        assert_eq!(at("https://a:1").url(7625, false), "https://a:1");
    }
}
