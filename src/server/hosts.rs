//! The hosts under which a port may be asked for by a browser.
//!
//! A site whose name resolves to this machine would be of the same origin as this port (DNS
//! rebinding). A name is therefore accepted only if it is known; an address cannot be made to point
//! elsewhere.

use std::net::{IpAddr, SocketAddr};

/// The accepted hosts of a port.
#[derive(Clone, Debug, Default)]
pub struct AllowedHosts {
    names: Vec<String>,
    /// Only addresses of this machine are accepted.
    is_loopback: bool,
}

// === impl AllowedHosts ===

impl AllowedHosts {
    /// Names as in a URL, without a port. `localhost` is always accepted, and so are addresses: on
    /// a loopback listener those of this machine, on another one all.
    pub fn new(names: &[String], listen: Option<SocketAddr>) -> Self {
        Self {
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            is_loopback: listen.is_none_or(|it| it.ip().to_canonical().is_loopback()),
        }
    }

    /// Whether other machines reach the listener, and no name was configured.
    pub(crate) fn is_unset_in_public(&self) -> bool {
        self.names.is_empty() && !self.is_loopback
    }

    /// Whether a `Host`, which may have a port, is accepted.
    pub(crate) fn allow(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
            _ => &host,
        };
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(name).parse::<IpAddr>() {
            return !self.is_loopback
                || address.to_canonical().is_loopback()
                || self.names.iter().any(|known| known == name);
        }
        name == "localhost" || self.names.iter().any(|known| known == name)
    }

    /// Whether a page of an `Origin` may call this `Host`: one of the same authority, or of a
    /// configured name. Another port of this machine is another site.
    pub(crate) fn allow_origin(&self, origin: &str, host: &str) -> bool {
        let Some((_, authority)) = origin.split_once("://") else {
            return false;
        };
        let name = authority
            .split_once(':')
            .map_or(authority, |(name, _)| name);
        let is_named = self.names.iter().any(|it| it.eq_ignore_ascii_case(name));
        is_named || authority.eq_ignore_ascii_case(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_to_be_known_and_addresses_local() {
        let listen = |address: &str| Some(address.parse().unwrap());
        let local = AllowedHosts::new(&["Lock.Example".to_owned()], listen("127.0.0.1:7626"));
        for host in [
            "localhost",
            "localhost:7626",
            "LOCALHOST:1",
            "127.0.0.1:7626",
            "127.1.2.3",
            "[::1]:7626",
            "lock.example:80",
        ] {
            assert!(local.allow(host), "{host}");
        }
        for host in [
            "",
            "evil.example:7626",
            "localhost.evil.example",
            "10.0.0.1:7626",
            "127.0.0.1.evil.example",
            "::1.evil.example",
        ] {
            assert!(!local.allow(host), "{host}");
        }
        let public = AllowedHosts::new(&[], listen("0.0.0.0:7626"));
        assert!(public.allow("10.0.0.1:7626") && !public.allow("lock.example"));
    }

    #[test]
    fn a_page_is_of_the_same_authority_or_of_a_configured_name() {
        let names = ["app.example".to_owned()];
        let hosts = AllowedHosts::new(&names, Some(([127, 0, 0, 1], 7625).into()));
        let allow = |origin| hosts.allow_origin(origin, "localhost:7625");
        for origin in [
            "http://localhost:7625",
            "http://LOCALHOST:7625",
            "https://app.example",
        ] {
            assert!(allow(origin), "{origin}");
        }
        for origin in [
            "http://localhost:3000",
            "http://localhost",
            "http://127.0.0.1:7625",
            "http://10.0.0.1:7625",
            "http://evil.example",
            "http://app.example.evil.example",
            "null",
        ] {
            assert!(!allow(origin), "{origin}");
        }
    }
}
