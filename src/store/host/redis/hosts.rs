//! What URLs that name several servers have in common: `[user:password@]host:port,host:port`.

use super::ConfigError;

/// User and password, and the servers, still percent-encoded where they were.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Hosts {
    /// `user:password@`, or nothing.
    pub(super) credentials: String,
    /// Each as `host:port`.
    pub(super) hosts: Vec<String>,
}

/// Which scheme it is that stands before `+kind://`, and what follows.
pub(super) fn split_scheme<'a>(url: &'a str, kind: &str) -> Option<(&'static str, &'a str)> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = match scheme.strip_suffix(kind)?.strip_suffix('+')? {
        "redis" => "redis",
        "rediss" => "rediss",
        _ => return None,
    };
    Some((scheme, rest))
}

/// The URL of one server.
pub(super) fn url_of(scheme: &str, credentials: &str, host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("{scheme}://{credentials}[{host}]:{port}/")
    } else {
        format!("{scheme}://{credentials}{host}:{port}/")
    }
}

// === impl Hosts ===

impl Hosts {
    /// Names the part that is wrong, and repeats nothing of it.
    pub(super) fn parse(authority: &str, default_port: u16) -> Result<Self, ConfigError> {
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((credentials, hosts)) => (format!("{credentials}@"), hosts),
            None => (String::new(), authority),
        };
        let hosts = hosts.split(',').map(|host| with_port(host, default_port));
        Ok(Self {
            credentials,
            hosts: hosts.collect::<Result<_, _>>()?,
        })
    }
}

fn with_port(host: &str, default_port: u16) -> Result<String, ConfigError> {
    let last = host.rsplit(']').next().unwrap_or_default();
    if host.is_empty() || host.starts_with(':') {
        return Err(ConfigError::Url {
            part: "host",
            problem: "it is missing",
        });
    }
    Ok(if last.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:{default_port}")
    })
}
