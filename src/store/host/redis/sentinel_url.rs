//! `redis+sentinel://[user:password@]host:port,host:port/service[/database][?sentinel_user=…&sentinel_password=…]`,
//! with `rediss` for TLS. User and password in front are the master's.

use super::{
    ConfigError,
    hosts::{Hosts, split_scheme, url_of},
};

const DEFAULT_SENTINEL_PORT: u16 = 26379;

/// The parts, still percent-encoded where they were.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SentinelUrl {
    scheme: &'static str,
    /// `user:password@` of the master, or nothing.
    credentials: String,
    /// The same of the sentinels.
    sentinel_credentials: String,
    sentinels: Vec<String>,
    pub(super) service: String,
    database: String,
}

// === impl SentinelUrl ===

impl SentinelUrl {
    /// Whether the scheme is that of sentinels.
    pub(super) fn is_one(url: &str) -> bool {
        url.starts_with("redis+sentinel:") || url.starts_with("rediss+sentinel:")
    }

    /// Names the part that is wrong, and repeats nothing of it.
    pub(super) fn parse(url: &str) -> Result<Self, ConfigError> {
        let wrong = |part, problem| Err(ConfigError::Url { part, problem });
        let Some((scheme, rest)) = split_scheme(url, "sentinel") else {
            return wrong(
                "scheme",
                "it must be redis+sentinel:// or rediss+sentinel://",
            );
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let Some((authority, path)) = rest.split_once('/') else {
            return wrong("service", "it is missing: /NAME behind the sentinels");
        };
        if path.contains('@') {
            return wrong("password", "the character / must be percent-encoded in it");
        }
        let Hosts { credentials, hosts } = Hosts::parse(authority, DEFAULT_SENTINEL_PORT)?;
        let (service, database) = path.split_once('/').unwrap_or((path, ""));
        if service.is_empty() {
            return wrong("service", "it is missing: /NAME behind the sentinels");
        }
        if !database.is_empty() && database.parse::<u32>().is_err() {
            return wrong("database", "it must be a number");
        }
        Ok(Self {
            scheme,
            credentials,
            sentinel_credentials: sentinel_credentials(query)?,
            sentinels: hosts,
            service: service.to_owned(),
            database: database.to_owned(),
        })
    }

    pub(super) fn sentinel_urls(&self) -> impl Iterator<Item = String> {
        let Self {
            scheme,
            sentinel_credentials,
            ..
        } = self;
        let url = move |host| format!("{scheme}://{sentinel_credentials}{host}");
        self.sentinels.iter().map(url)
    }

    pub(super) fn master_url(&self, host: &str, port: u16) -> String {
        let Self {
            scheme,
            credentials,
            database,
            ..
        } = self;
        let server = url_of(scheme, credentials, host, port);
        format!("{server}{database}")
    }
}

fn sentinel_credentials(query: &str) -> Result<String, ConfigError> {
    let (mut user, mut password) = ("", "");
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel_user", value)) => user = value,
            Some(("sentinel_password", value)) => password = value,
            _ => {
                return Err(ConfigError::Url {
                    part: "query",
                    problem: "only sentinel_user and sentinel_password are known",
                });
            }
        }
    }
    Ok(if user.is_empty() && password.is_empty() {
        String::new()
    } else {
        format!("{user}:{password}@")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_found() {
        let url = SentinelUrl::parse(
            "rediss+sentinel://app:p%2Fw@s1:26000,s2,[::1]:7/main/3?sentinel_password=x",
        )
        .map_err(|error| error.to_string())
        .unwrap();
        assert_eq!(url.service, "main");
        let sentinels: Vec<_> = url.sentinel_urls().collect();
        assert_eq!(
            sentinels,
            [
                "rediss://:x@s1:26000",
                "rediss://:x@s2:26379",
                "rediss://:x@[::1]:7"
            ]
        );
        assert_eq!(url.master_url("m", 1), "rediss://app:p%2Fw@m:1/3");
        assert_eq!(url.master_url("::2", 1), "rediss://app:p%2Fw@[::2]:1/3");
        let plain = SentinelUrl::parse("redis+sentinel://s1/main");
        let plain = plain.map_err(|error| error.to_string()).unwrap();
        assert_eq!(plain.master_url("m", 1), "redis://m:1/");
    }

    #[test]
    fn the_wrong_part_is_named_and_nothing_is_repeated() {
        for (url, part) in [
            ("redis://secret", "scheme"),
            ("redis+sentinel://secret", "service"),
            ("redis+sentinel://secret/", "service"),
            ("redis+sentinel:///main", "host"),
            ("redis+sentinel://a,/main", "host"),
            ("redis+sentinel://:sec/ret@a/main", "password"),
            ("redis+sentinel://a/main/secret", "database"),
            ("redis+sentinel://a/main?secret=1", "query"),
        ] {
            let Err(error) = SentinelUrl::parse(url) else {
                panic!("{url} is taken");
            };
            assert!(
                matches!(error, ConfigError::Url { part: named, .. } if named == part),
                "{url}: {error}"
            );
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
