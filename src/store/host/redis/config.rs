//! What a client of Redis needs to know, and why that may be unusable.

use std::{fmt, time::Duration};

use crate::host::{Metrics, Script};

/// Where a Redis is and how long to wait for it.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://` or `rediss://`, with user, password and database as needed; `redis+sentinel://`
    /// or `redis+cluster://`, see the modules of those names.
    pub url: String,
    /// The time limit of one evaluation, and of one confirmation of a subscription.
    pub call_timeout: Duration,
    /// The time limit of opening a connection: address, TCP, TLS, greeting.
    pub connect_timeout: Duration,
    /// How long replicas are waited for, where that is asked for.
    pub replica_ack_timeout: Duration,
    /// The key that is written for replicas to acknowledge. It says nothing.
    pub replica_marker: String,
    /// Channels that nobody listens to, whose names begin as those of locks and of elections do, to
    /// find out whether the user may publish.
    pub probe_channels: [String; 2],
    /// Connections that all calls share. More do not make one Redis faster, but the batches on each
    /// smaller.
    pub connections: usize,
    /// How often the connection of the subscriptions is probed; an answer that is not there by the
    /// next probe means that it is dead.
    pub ping_interval: Duration,
    /// How our connections are called in `CLIENT LIST`.
    pub client_name: String,
    /// Certificates for `rediss://`.
    pub tls: TlsCertificates,
    /// Scripts that are loaded whenever a connection is opened, so that no call has to.
    pub scripts: &'static [&'static Script],
    /// Where connections are counted.
    pub metrics: Metrics,
}

/// Certificates in PEM form.
#[derive(Clone, Default)]
pub struct TlsCertificates {
    /// Whom to trust; the system's authorities if there is none.
    pub root: Option<Vec<u8>>,
    /// A certificate and its key to show to the server.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

/// Why a configuration cannot be used. Never shows any of the URL, which may contain a password.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// A part of the URL is wrong.
    #[error("the {part} in the store's URL is wrong: {problem}")]
    Url {
        /// Which part, such as `port`.
        part: &'static str,
        /// What about it.
        problem: &'static str,
    },
    /// The certificates cannot be used.
    #[error("the certificates for the store cannot be used: {0}")]
    Tls(String),
    /// There must be at least one connection.
    #[error("the number of connections to the store must not be 0")]
    NoConnections,
}

// === impl RedisConfig ===

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".to_owned(),
            call_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            replica_ack_timeout: Duration::from_secs(1),
            replica_marker: "marker".to_owned(),
            probe_channels: ["probe".to_owned(), "probe".to_owned()],
            connections: 1,
            ping_interval: Duration::from_secs(1),
            client_name: "lockkeeper".to_owned(),
            tls: TlsCertificates::default(),
            scripts: &[],
            metrics: Metrics::default(),
        }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("url", &"<redacted>")
            .field("call_timeout", &self.call_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("replica_ack_timeout", &self.replica_ack_timeout)
            .field("replica_marker", &self.replica_marker)
            .field("probe_channels", &self.probe_channels)
            .field("connections", &self.connections)
            .field("ping_interval", &self.ping_interval)
            .field("client_name", &self.client_name)
            .field("tls", &self.tls)
            .field("scripts", &self.scripts.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TlsCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsCertificates")
            .field("root", &self.root.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
}
