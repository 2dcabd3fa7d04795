//! The grammar of the store's URL: `scheme://[user:password@]servers/path`.
//!
//! | Scheme           | Servers              | Path                          |
//! |------------------|----------------------|-------------------------------|
//! | `redis`          | `host[:port]`        | `[database]`                  |
//! | `redis+sentinel` | `host[:port],host,…` | `service[/database][?logins]` |
//! | `redis+cluster`  | `host[:port],host,…` | `[0]`                         |
//!
//! The logins of sentinels are `sentinel_user=…&sentinel_password=…`. `rediss` is TLS. User and
//! password are percent-encoded and belong to the servers that hold keys. An error names the wrong
//! part and repeats nothing of it: a password in the wrong place must not get into a log.

use deadpool_redis::redis::{ConnectionInfo, IntoConnectionInfo as _};

use super::{ConfigError, address::Address};

const CLUSTER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// What a URL names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One server.
    Single,
    /// Sentinels, which name a master.
    Sentinel,
    /// Some nodes of a cluster.
    Cluster,
}

/// How to reach a server of a known address.
#[derive(Clone, PartialEq, Eq)]
struct Login {
    scheme: &'static str,
    /// `user:password@`, or nothing.
    credentials: String,
}

/// Sentinels and the service they watch.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SentinelUrl {
    /// The URL of each sentinel.
    pub(super) sentinels: Vec<String>,
    pub(super) service: String,
    master: Login,
    database: String,
}

/// Nodes of a cluster, which are asked for the others.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ClusterUrl {
    pub(super) seeds: Vec<Address>,
    nodes: Login,
}

/// The kind, by the scheme alone.
pub(super) fn kind(url: &str) -> Kind {
    match url.split_once(':') {
        Some(("redis+sentinel" | "rediss+sentinel", _)) => Kind::Sentinel,
        Some(("redis+cluster" | "rediss+cluster", _)) => Kind::Cluster,
        _ => Kind::Single,
    }
}

/// Parses the URL of one server.
pub(super) fn parse_single(url: &str) -> Result<ConnectionInfo, ConfigError> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return wrong("scheme", "the URL must start with redis:// or rediss://");
    };
    if !["redis", "rediss", "valkey", "valkeys"].contains(&scheme) {
        return wrong("scheme", "it must be redis or rediss");
    }
    let (authority, tail) = split_authority(rest)?;
    let (_, server) = split_credentials(authority);
    let (host, port) = match server.strip_prefix('[') {
        Some(ipv6) => match ipv6.split_once(']') {
            Some((host, port)) => (host, port),
            None => return wrong("host", "an IPv6 address ends with ]"),
        },
        None => server.split_at(server.find(':').unwrap_or(server.len())),
    };
    if host.is_empty() {
        return wrong("host", "it is missing");
    }
    let number = |port: &str| port.strip_prefix(':')?.parse::<u16>().ok();
    if !port.is_empty() && number(port).is_none_or(|port| port == 0) {
        return wrong("port", BAD_PORT);
    }
    if tail.split_once('#').is_some_and(|(_, it)| it == "insecure") {
        return wrong(
            "fragment",
            "certificates are always verified; name the authority to trust instead",
        );
    }
    let database = only_path(tail)?;
    if !database.is_empty() && !database.parse::<i64>().is_ok_and(|number| number >= 0) {
        return wrong("database", "it must be a number");
    }
    url.into_connection_info()
        .or_else(|_| wrong("user, password or host", UNUSABLE))
}

/// Why a URL that has the right form cannot be used.
pub(super) const UNUSABLE: &str = "it cannot be parsed";

const BAD_PORT: &str = "it must be a number from 1 to 65535";

// === impl SentinelUrl ===

impl SentinelUrl {
    pub(super) fn parse(url: &str) -> Result<Self, ConfigError> {
        const NO_SERVICE: &str = "it is missing: add /NAME after the sentinels";
        let Some((scheme, rest)) = split_scheme(url, "+sentinel://") else {
            return wrong(
                "scheme",
                "it must be redis+sentinel:// or rediss+sentinel://",
            );
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let Some((authority, path)) = rest.split_once('/') else {
            return wrong("service", NO_SERVICE);
        };
        if path.contains('@') {
            return wrong("password", "the character / must be percent-encoded in it");
        }
        let (master, hosts) = split_hosts(scheme, authority, SENTINEL_PORT)?;
        let (service, database) = path.split_once('/').unwrap_or((path, ""));
        if service.is_empty() {
            return wrong("service", NO_SERVICE);
        }
        if !database.is_empty() && database.parse::<u32>().is_err() {
            return wrong("database", "it must be a number");
        }
        let credentials = sentinel_credentials(query)?;
        let sentinels = hosts.iter();
        Ok(Self {
            sentinels: sentinels
                .map(|host| format!("{scheme}://{credentials}{host}"))
                .collect(),
            service: service.to_owned(),
            master,
            database: database.to_owned(),
        })
    }

    pub(super) fn master_url(&self, master: &Address) -> String {
        self.master.url_of(master) + &self.database
    }
}

// === impl ClusterUrl ===

impl ClusterUrl {
    pub(super) fn parse(url: &str) -> Result<Self, ConfigError> {
        let Some((scheme, rest)) = split_scheme(url, "+cluster://") else {
            return wrong("scheme", "it must be redis+cluster:// or rediss+cluster://");
        };
        let (authority, tail) = split_authority(rest)?;
        if !["", "0"].contains(&only_path(tail)?) {
            return wrong("database", "a cluster has only database 0");
        }
        let (nodes, hosts) = split_hosts(scheme, authority, CLUSTER_PORT)?;
        let seeds = hosts
            .iter()
            .map(|host| Address::parse(host).map_or_else(|| wrong("port", BAD_PORT), Ok));
        Ok(Self {
            seeds: seeds.collect::<Result<_, _>>()?,
            nodes,
        })
    }

    pub(super) fn node_url(&self, node: &Address) -> String {
        self.nodes.url_of(node)
    }
}

// === impl Login ===

impl Login {
    fn url_of(&self, server: &Address) -> String {
        format!("{}://{}{server}/", self.scheme, self.credentials)
    }
}

fn wrong<T>(part: &'static str, problem: &'static str) -> Result<T, ConfigError> {
    Err(ConfigError::Url { part, problem })
}

/// The scheme of one server, and what follows `redis` and this ending.
fn split_scheme<'a>(url: &'a str, ending: &str) -> Option<(&'static str, &'a str)> {
    let mut schemes = ["redis", "rediss"].into_iter();
    schemes.find_map(|scheme| Some((scheme, url.strip_prefix(scheme)?.strip_prefix(ending)?)))
}

/// The authority, and what follows it.
fn split_authority(rest: &str) -> Result<(&str, &str), ConfigError> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if tail.contains('@') {
        return wrong(
            "password",
            "the characters / ? # must be percent-encoded in it",
        );
    }
    Ok((authority, tail))
}

/// The path without slashes around it; a query or a fragment is refused.
fn only_path(tail: &str) -> Result<&str, ConfigError> {
    if tail.contains('#') {
        return wrong("fragment", "there must be none");
    }
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    if !query.is_empty() {
        return wrong("query", "there must be none");
    }
    Ok(path.trim_matches('/'))
}

/// `user:password@`, or nothing, and the rest.
fn split_credentials(authority: &str) -> (&str, &str) {
    authority.split_at(authority.rfind('@').map_or(0, |at| at + 1))
}

/// The login, and each server as `host:port`.
fn split_hosts(
    scheme: &'static str,
    authority: &str,
    default_port: u16,
) -> Result<(Login, Vec<String>), ConfigError> {
    let (credentials, hosts) = split_credentials(authority);
    let hosts = hosts.split(',').map(|host| {
        if host.is_empty() || host.starts_with(':') {
            return wrong("host", "it is missing");
        }
        let has_port = host.rsplit(']').next().is_some_and(|it| it.contains(':'));
        Ok(if has_port {
            host.to_owned()
        } else {
            format!("{host}:{default_port}")
        })
    });
    let login = Login {
        scheme,
        credentials: credentials.to_owned(),
    };
    Ok((login, hosts.collect::<Result<_, _>>()?))
}

fn sentinel_credentials(query: &str) -> Result<String, ConfigError> {
    let (mut user, mut password) = ("", "");
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel_user", value)) => user = value,
            Some(("sentinel_password", value)) => password = value,
            _ => {
                return wrong(
                    "query",
                    "only sentinel_user and sentinel_password are known",
                );
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
    fn good_urls_of_one_server_are_accepted() {
        for url in [
            "redis://localhost",
            "redis://127.0.0.1:6379",
            "redis://[::1]:6379/3",
            "redis://:p%40ss@redis.example:6379/0",
            "rediss://user:secret@redis.example/",
            "valkey://localhost:1",
        ] {
            assert!(parse_single(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn the_parts_of_a_sentinel_url_are_found() {
        let url = SentinelUrl::parse(
            "rediss+sentinel://app:p%2Fw@s1:26000,s2,[::1]:7/main/3?sentinel_password=x",
        )
        .map_err(|error| error.to_string())
        .unwrap();
        assert_eq!(url.service, "main");
        assert_eq!(
            url.sentinels,
            [
                "rediss://:x@s1:26000",
                "rediss://:x@s2:26379",
                "rediss://:x@[::1]:7"
            ]
        );
        let master = |host: &str| Address {
            host: host.to_owned(),
            port: 1,
        };
        assert_eq!(url.master_url(&master("m")), "rediss://app:p%2Fw@m:1/3");
        assert_eq!(
            url.master_url(&master("::2")),
            "rediss://app:p%2Fw@[::2]:1/3"
        );
        let plain = SentinelUrl::parse("redis+sentinel://s1/main");
        let plain = plain.map_err(|error| error.to_string()).unwrap();
        assert_eq!(plain.master_url(&master("m")), "redis://m:1/");
    }

    #[test]
    fn the_parts_of_a_cluster_url_are_found() {
        let url = ClusterUrl::parse("rediss+cluster://app:p%2Fw@a:7000,b,[::1]:7/0");
        let url = url.map_err(|error| error.to_string()).unwrap();
        let seeds: Vec<_> = url.seeds.iter().map(|seed| url.node_url(seed)).collect();
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
            ("localhost:6379", "scheme"),
            ("http://:secret@localhost", "scheme"),
            ("redis://", "host"),
            ("redis://:secret@:6379", "host"),
            ("redis://[::1", "host"),
            ("redis://:secret@localhost:port", "port"),
            ("redis://localhost:0", "port"),
            ("redis://localhost:65536", "port"),
            ("redis://:sec/ret@localhost", "password"),
            ("redis://localhost/secret", "database"),
            ("redis://localhost/-1", "database"),
            ("redis://localhost?secret=1", "query"),
            ("rediss://localhost/#insecure", "fragment"),
            ("redis://:secret%FF@localhost", "user, password or host"),
            ("valkey+sentinel://secret", "scheme"),
            ("redis+sentinel:secret", "scheme"),
            ("redis+sentinel://secret", "service"),
            ("redis+sentinel://secret/", "service"),
            ("redis+sentinel:///main", "host"),
            ("redis+sentinel://a,/main", "host"),
            ("redis+sentinel://:sec/ret@a/main", "password"),
            ("redis+sentinel://a/main/secret", "database"),
            ("redis+sentinel://a/main?secret=1", "query"),
            ("valkey+cluster://secret", "scheme"),
            ("redis+cluster:secret", "scheme"),
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
            let refused = match kind(url) {
                Kind::Single => parse_single(url).err(),
                Kind::Sentinel => SentinelUrl::parse(url).err(),
                Kind::Cluster => ClusterUrl::parse(url).err(),
            };
            let error = refused.unwrap_or_else(|| panic!("{url} is accepted"));
            assert!(
                matches!(error, ConfigError::Url { part: named, .. } if named == part),
                "{url}: {error}"
            );
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
