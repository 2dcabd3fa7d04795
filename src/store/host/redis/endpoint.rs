//! One server: its address, and how connections to it are opened.

use std::{fmt, io, sync::Arc, time::Duration};

use deadpool_redis::{
    Manager, Pool, Runtime,
    redis::{
        AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ProtocolVersion,
        RedisError, TlsCertificates,
        aio::{AsyncPushSender, MultiplexedConnection},
        cmd,
        io::tcp::{TcpSettings, socket2::TcpKeepalive},
    },
};

use tokio::time::timeout;

use super::{
    ConfigError, RedisConfig, TlsCertificates as Certificates, dial::dial, reply, resp, url,
    wire::Wire,
};
use crate::host::{
    Metrics, Script,
    metrics::{Open, Purpose},
};

/// A peer that vanished is noticed after this long. A frozen one is not dropped by it, because its
/// kernel goes on acknowledging.
const PEER_GONE_AFTER: Duration = Duration::from_secs(5);

/// Silence after which the kernel asks whether the peer is still there, so that idle connections
/// find out too.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(5);

/// How often it asks from then on.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// Commands that may wait for the task that writes them. Callers beyond that wait for room, inside
/// their time limit; a later one may overtake them.
pub(super) const COMMANDS_QUEUED_MAX: usize = 256;

/// A server that connections can be opened to.
#[derive(Clone)]
pub(super) struct Endpoint {
    client: Client,
    certificates: Arc<Certificates>,
    connect_timeout: Duration,
    client_name: Arc<str>,
    scripts: &'static [&'static Script],
    metrics: Metrics,
    probe: Probe,
}

/// A key and channels that mean nothing.
#[derive(Clone)]
pub(super) struct Probe {
    pub(super) key: Arc<str>,
    pub(super) channel: Arc<str>,
    pub(super) election: Arc<str>,
    /// Whether the server is a node of a cluster, which takes more rights.
    pub(super) in_cluster: bool,
}

// === impl Endpoint ===

impl Endpoint {
    pub(super) fn new(config: &RedisConfig) -> Result<Self, ConfigError> {
        let info = url::parse_single(&config.url)?;
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_user_timeout(PEER_GONE_AFTER)
            .set_keepalive(
                TcpKeepalive::new()
                    .with_time(KEEPALIVE_AFTER)
                    .with_interval(KEEPALIVE_INTERVAL),
            );
        // RESP3 carries answers and messages on one connection, shows when a connection is lost
        // even without calls, and shows subscriptions that the server ended. It needs Redis 6.
        let redis = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3)
            .set_skip_set_lib_name();
        let info = info.set_tcp_settings(tcp).set_redis_settings(redis);

        let client = if config.url.starts_with("rediss:") || config.url.starts_with("valkeys:") {
            let certificates = TlsCertificates {
                client_tls: config.tls.client.clone().map(|(client_cert, client_key)| {
                    ClientTlsConfig {
                        client_cert,
                        client_key,
                    }
                }),
                root_cert: config.tls.root.clone(),
            };
            Client::build_with_tls(info, certificates)
                .map_err(|error| ConfigError::Tls(error.to_string()))?
        } else {
            Client::open(info).map_err(|_| ConfigError::Url {
                part: "URL",
                problem: url::UNUSABLE,
            })?
        };
        Ok(Self {
            client,
            certificates: Arc::new(config.tls.clone()),
            connect_timeout: config.connect_timeout,
            client_name: config.client_name.as_str().into(),
            scripts: config.scripts,
            metrics: config.metrics.clone(),
            probe: Probe {
                key: config.replica_marker.as_str().into(),
                channel: config.probe_channels[0].as_str().into(),
                election: config.probe_channels[1].as_str().into(),
                in_cluster: false,
            },
        })
    }

    /// The same server as a node of a cluster.
    pub(super) fn of_cluster(mut self) -> Self {
        self.probe.in_cluster = true;
        self
    }

    /// Host and port.
    pub(super) fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }

    /// Opens a connection that has no time limits of its own: callers bring theirs. Pushes include
    /// the loss of the connection.
    pub(super) async fn connect(
        &self,
        pushes: impl AsyncPushSender,
    ) -> Result<MultiplexedConnection, RedisError> {
        let config = self
            .settings()
            .set_response_timeout(None)
            .set_push_sender(pushes);
        let mut connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| reply::hinted(error, self.has_tls()))?;
        // A server that does not allow naming is as good as any; a lost connection shows in its
        // first use.
        let mut name = cmd("CLIENT");
        name.arg("SETNAME").arg(self.client_name.as_ref());
        let named = connection.send_packed_command(&name);
        if timeout(self.connect_timeout, named).await.is_err() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        Ok(connection)
    }

    /// Opens a connection for calls. `lost` is called when it is lost.
    pub(super) async fn open_wire(
        &self,
        lost: impl FnOnce() + Send + 'static,
    ) -> Result<Wire, RedisError> {
        let timed_out = |_elapsed| io::Error::from(io::ErrorKind::TimedOut);
        let dialed = dial(self.client.get_connection_info(), &self.certificates);
        let stream = timeout(self.connect_timeout, dialed)
            .await
            .unwrap_or_else(|elapsed| Err(timed_out(elapsed).into()))
            .map_err(|error| reply::hinted(error, self.has_tls()))?;
        let wire = Wire::open(stream, lost);
        let named = wire.send(1, None, |out| {
            resp::put(out, [b"CLIENT", b"SETNAME", self.client_name.as_bytes()]);
        });
        let _ = timeout(self.connect_timeout, named)
            .await
            .map_err(timed_out)?;
        Ok(wire)
    }

    /// Has the server load the scripts. One that does not allow it gets them with their first
    /// calls.
    pub(super) async fn load_scripts(&self, wire: &Wire) {
        if self.scripts.is_empty() {
            return;
        }
        let loads = wire.send(self.scripts.len(), None, |out| {
            for script in self.scripts {
                resp::put(out, [b"SCRIPT", b"LOAD", script.source().as_bytes()]);
            }
        });
        let loaded = timeout(self.connect_timeout, loads).await;
        tracing::debug!(
            scripts = self.scripts.len(),
            in_time = loaded.is_ok(),
            "loaded"
        );
    }

    /// A pool for work that needs a connection of its own, and that may take so long to be
    /// answered.
    pub(super) fn pool(&self, size: usize, answered_in: Duration) -> Result<Pool, ConfigError> {
        let info = self.client.get_connection_info().clone();
        let config = self.settings().set_response_timeout(Some(answered_in));
        let unusable = ConfigError::Url {
            part: "URL",
            problem: url::UNUSABLE,
        };
        let manager = Manager::new_with_config(info, config).map_err(|_| unusable.clone())?;
        Pool::builder(manager)
            .max_size(size)
            .wait_timeout(Some(answered_in))
            .create_timeout(Some(self.connect_timeout))
            .recycle_timeout(Some(self.connect_timeout))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|_| unusable)
    }

    /// Counts a connection to this server as long as what is returned is kept.
    pub(super) fn opened(&self, purpose: Purpose) -> Open {
        self.metrics.opened(purpose)
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What rights are tried on.
    pub(super) fn probe(&self) -> &Probe {
        &self.probe
    }

    /// The time limit of opening a connection.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    fn has_tls(&self) -> bool {
        let address = self.client.get_connection_info().addr();
        matches!(address, ConnectionAddr::TcpTls { .. })
    }

    fn settings(&self) -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_pipeline_buffer_size(COMMANDS_QUEUED_MAX)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.client.get_connection_info().addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_password() {
        let config = RedisConfig {
            url: "redis://user:secret@localhost".to_owned(),
            ..RedisConfig::default()
        };
        let endpoint = Endpoint::new(&config).unwrap();
        assert!(!format!("{config:?} {endpoint:?}").contains("secret"));
    }
}
