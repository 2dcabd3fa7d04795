//! `redis+cluster://[user:password@]host:port,host:port`, with `rediss` for TLS. The servers that
//! are named are asked who the others are; user and password are those of all.

use super::super::{
    ConfigError,
    hosts::{Hosts, split_scheme, url_of},
};
use super::topology::Address;

const DEFAULT_PORT: u16 = 6379;

/// The parts, still percent-encoded where they were.
#[derive(Clone, PartialEq, Eq)]
pub(in super::super) struct ClusterUrl {
    scheme: &'static str,
    credentials: String,
    seeds: Vec<Address>,
}

// === impl ClusterUrl ===

impl ClusterUrl {
    /// Whether the scheme is that of clusters.
    pub(in super::super) fn is_one(url: &str) -> bool {
        url.starts_with("redis+cluster:") || url.starts_with("rediss+cluster:")
    }

    /// Names the part that is wrong, and repeats nothing of it.
    pub(in super::super) fn parse(url: &str) -> Result<Self, ConfigError> {
        let wrong = |part, problem| Err(ConfigError::Url { part, problem });
        let Some((scheme, rest)) = split_scheme(url, "cluster") else {
            return wrong("scheme", "it must be redis+cluster:// or rediss+cluster://");
        };
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if tail.contains('@') {
            return wrong(
                "password",
                "the characters / ? # must be percent-encoded in it",
            );
        }
        if tail.contains('#') {
            return wrong("fragment", "there must be none");
        }
        let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
        if !query.is_empty() {
            return wrong("query", "there must be none");
        }
        if !["", "0"].contains(&path.trim_matches('/')) {
            return wrong("database", "a cluster has no other than 0");
        }
        let Hosts { credentials, hosts } = Hosts::parse(authority, DEFAULT_PORT)?;
        let seeds = hosts.iter().map(|host| {
            Address::parse(host).ok_or(ConfigError::Url {
                part: "port",
                problem: "it must be a number from 1 to 65535",
            })
        });
        Ok(Self {
            scheme,
            credentials,
            seeds: seeds.collect::<Result<_, _>>()?,
        })
    }

    /// The servers that are named.
    pub(super) fn seeds(&self) -> &[Address] {
        &self.seeds
    }

    /// The URL of one server.
    pub(super) fn url_of(&self, server: &Address) -> String {
        url_of(self.scheme, &self.credentials, &server.host, server.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_found() {
        let url = ClusterUrl::parse("rediss+cluster://app:p%2Fw@a:7000,b,[::1]:7/0");
        let url = url.map_err(|error| error.to_string()).unwrap();
        let seeds: Vec<_> = url.seeds().iter().map(|seed| url.url_of(seed)).collect();
        assert_eq!(
            seeds,
            [
                "rediss://app:p%2Fw@a:7000/",
                "rediss://app:p%2Fw@b:6379/",
                "rediss://app:p%2Fw@[::1]:7/"
            ]
        );
        assert!(ClusterUrl::parse("redis+cluster://a/").is_ok());
    }

    #[test]
    fn the_wrong_part_is_named_and_nothing_is_repeated() {
        for (url, part) in [
            ("redis://secret", "scheme"),
            ("valkey+cluster://secret", "scheme"),
            ("redis+cluster://", "host"),
            ("redis+cluster://:secret@a,", "host"),
            ("redis+cluster://:secret@a,:1", "host"),
            ("redis+cluster://a:secret", "port"),
            ("redis+cluster://a:0,b", "port"),
            ("redis+cluster://[::1]secret:7", "port"),
            ("redis+cluster://:sec/ret@a", "password"),
            ("redis+cluster://a/secret", "database"),
            ("redis+cluster://a/1", "database"),
            ("redis+cluster://a?secret=1", "query"),
            ("redis+cluster://a/#secret", "fragment"),
        ] {
            let Err(error) = ClusterUrl::parse(url) else {
                panic!("{url} is taken");
            };
            assert!(
                matches!(error, ConfigError::Url { part: named, .. } if named == part),
                "{url}: {error}"
            );
            assert!(!error.to_string().contains("sec"), "{error}");
        }
    }
}
