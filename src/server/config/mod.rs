//! The settings of a coordinator: defaults, then a TOML file, then the environment
//! (`LOCKKEEPER__SECTION__KEY`), then flags. Plain data, from which `layers.rs`, `wiring.rs` and
//! `security.rs` derive the configuration of each layer.

mod address;
mod facades;
mod fleet;
mod load;
#[cfg(test)]
mod load_tests;
mod log;
mod replica_acks;
mod secret;
mod security;
pub(crate) mod session_secrets;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
pub(crate) mod tests;
mod tls;
mod validate;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use lockkeeper_base::threads;
use serde::{Deserialize, Serialize};

pub use self::{
    address::{OptionalAddress, UnixMode},
    facades::Facades,
    fleet::Fleet,
    load::{Flag, Refused, Sources},
    log::{Log, LogFormat, filter},
    replica_acks::ReplicaAcks,
    secret::{Secret, StoreUrl},
    security::{Access, AccessQuotas, AccessRight, AccessRule, Audit, Auth, ServerTls},
};

/// All settings.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The gRPC server.
    pub server: Server,
    /// How callers authenticate.
    pub auth: Auth,
    /// What callers may do.
    pub access: Access,
    /// The audit log.
    pub audit: Audit,
    /// The admin port: probes, metrics and the console.
    pub admin: Admin,
    /// The store of the locks.
    pub store: Store,
    /// Sessions.
    pub session: Session,
    /// The other coordinators of the store.
    pub fleet: Fleet,
    /// The protocols of other systems.
    pub facades: Facades,
    /// Limits, so that no client can exhaust the coordinator.
    pub limits: Limits,
    /// The log on stderr.
    pub log: Log,
    /// Traces.
    pub telemetry: Telemetry,
}

/// The gRPC server.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// The listen address; empty: only `uds_path`.
    pub listen: OptionalAddress,
    /// A Unix-domain socket to listen on; empty: none.
    pub uds_path: PathBuf,
    /// The mode of that file, which determines who may connect.
    pub uds_mode: UnixMode,
    /// Admits callers without credentials, also from other machines.
    pub allow_unauthenticated: bool,
    /// Concurrent connections; 0: by the memory. More are closed at once. The limit is lower if the
    /// process may open fewer files.
    pub connections_max: usize,
    /// Threads that serve callers; 0: half the number of cores, at least one.
    pub worker_threads: usize,
    /// How long an idle thread polls for the next event before it sleeps, if that paid off
    /// recently. At most 10 ms; zero disables it. Only with one thread.
    #[serde(with = "humantime_serde")]
    pub busy_poll: Duration,
    /// How long a new connection may take to speak HTTP/2, including its TLS handshake.
    #[serde(with = "humantime_serde")]
    pub handshake_timeout: Duration,
    /// When a connection is closed, so that its client connects anew; zero: never.
    #[serde(with = "humantime_serde")]
    pub connection_age_max: Duration,
    /// The interval of keepalive pings on idle connections.
    #[serde(with = "humantime_serde")]
    pub keepalive_interval: Duration,
    /// How long a client may take to answer a ping.
    #[serde(with = "humantime_serde")]
    pub keepalive_timeout: Duration,
    /// How long a drain waits for operations in progress.
    #[serde(with = "humantime_serde")]
    pub drain_grace: Duration,
    /// Accepts gRPC-Web.
    pub grpc_web: bool,
    /// Accepts HTTP/JSON.
    pub http_json: bool,
    /// The names under which pages of a browser may call, besides `localhost` and addresses.
    pub allowed_hosts: Vec<String>,
    /// TLS.
    pub tls: ServerTls,
}

/// The admin port.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// The listen address; empty: no admin port.
    pub listen: OptionalAddress,
    /// Opens the whole port to callers without credentials, also from other machines. Probes and
    /// metrics are always open.
    pub allow_unauthenticated: bool,
    /// Lets callers with the admin right force-release locks, request yields and end sessions in
    /// the console.
    pub allow_force_release: bool,
    /// Scrapers of metrics have to show a bearer token.
    pub authenticate_metrics: bool,
    /// The names under which browsers may open the console, besides `localhost` and addresses.
    pub allowed_hosts: Vec<String>,
    /// Beginnings of names that some metrics have as a label.
    pub metric_prefixes: Vec<String>,
}

/// The store of the locks.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// `embedded:`, `redis://…` or `rediss://…`.
    pub url: StoreUrl,
    /// A file with the password for `url`, to keep it out of the configuration; empty: none.
    pub password_file: PathBuf,
    /// Certificates for `rediss://`.
    pub tls: StoreTls,
    /// The connection name in the store's `CLIENT LIST`.
    pub client_name: String,
    /// The prefix of every name in the store. Clients never see it.
    pub key_prefix: String,
    /// Several independent stores instead of `url`: locks are held on a majority of them.
    pub quorum: Vec<StoreUrl>,
    /// How long a quorum waits for each store.
    #[serde(with = "humantime_serde")]
    pub quorum_member_timeout: Duration,
    /// How long a call may take before its outcome counts as unknown.
    #[serde(with = "humantime_serde")]
    pub call_timeout: Duration,
    /// How long opening a connection may take.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// Replicas that must acknowledge a grant, renewal or release, unless a request asks for more.
    pub replica_acks: ReplicaAcks,
    /// How long to wait for replicas.
    #[serde(with = "humantime_serde")]
    pub replica_ack_timeout: Duration,
    /// Connections that carry the commands of all callers.
    pub connections: usize,
    /// The ping interval of the connection that carries wake-ups.
    #[serde(with = "humantime_serde")]
    pub pubsub_ping_interval: Duration,
    /// The longest sleep of a waiter before it tries again, because wake-ups are hints.
    #[serde(with = "humantime_serde")]
    pub poll_interval: Duration,
    /// How long the fencing counter of an idle name is kept; zero: without limit.
    #[serde(with = "humantime_serde")]
    pub idle_token_retention: Duration,
    /// How long the answer to a `request_id` is remembered.
    #[serde(with = "humantime_serde")]
    pub request_retention: Duration,
    /// How long a fair waiter keeps its position without a refresh by its coordinator.
    #[serde(with = "humantime_serde")]
    pub fair_waiter_timeout: Duration,
    /// How long a waiting writer blocks new readers; then they are admitted for as long.
    #[serde(with = "humantime_serde")]
    pub writer_hold_back: Duration,
    /// Whether a number without a record of its kind is a semaphore or a latch.
    pub adopt_redisson_counters: bool,
    /// Whether plain exclusive locks are acquired and released without scripts.
    pub native_commands: bool,
    /// Allows an empty `key_prefix` with authentication or rules: names are shared on purpose.
    pub shares_names: bool,
}

/// Certificates for `rediss://` (PEM); empty: none.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreTls {
    /// The trusted authorities, instead of the system's.
    pub ca_file: PathBuf,
    /// The client certificate for the store, with `key_file`.
    pub certificate_file: PathBuf,
    /// The key of `certificate_file`.
    pub key_file: PathBuf,
}

/// Sessions.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Session {
    /// Signs resume tokens. Coordinators that share it can resume each other's sessions; empty: a
    /// random one per start. A second line is a second secret, whose tokens are accepted too.
    pub secret: Secret,
    /// A file with `secret`, to keep it out of the configuration; empty: none. Reloaded on change.
    pub secret_file: PathBuf,
    /// How long after its issue a resume token is accepted elsewhere.
    #[serde(with = "humantime_serde")]
    pub resume_max: Duration,
    /// The default lease of sessions and sessionless grants.
    #[serde(with = "humantime_serde")]
    pub lease: Duration,
}

/// Limits, so that no client can exhaust the coordinator.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The longest name, in bytes.
    pub name_bytes_max: usize,
    /// The longest owner, in bytes.
    pub owner_bytes_max: usize,
    /// The longest request id, in bytes.
    pub request_id_bytes_max: usize,
    /// The longest client name, in bytes.
    pub client_name_bytes_max: usize,
    /// The largest gRPC message, in bytes.
    pub message_bytes_max: usize,
    /// The shortest lease.
    #[serde(with = "humantime_serde")]
    pub lease_min: Duration,
    /// The longest lease.
    #[serde(with = "humantime_serde")]
    pub lease_max: Duration,
    /// Waiters per lock; 0: as many as in total, at most 20,000.
    pub waiters_per_lock_max: usize,
    /// Waiters on all locks together; 0: by the memory.
    pub waiters_max: usize,
    /// Live sessions; 0: by the memory.
    pub sessions_max: usize,
    /// Grants per session.
    pub grants_per_session_max: usize,
    /// Locks per request.
    pub locks_per_request_max: usize,
    /// Holders per lock in the store.
    pub holders_per_lock_max: u32,
    /// Taken permits per semaphore in the store.
    pub permits_per_name_max: u32,
    /// Concurrent operations of a session's stream that do not wait. More are left unread until
    /// some are answered.
    pub operations_per_session_max: usize,
    /// Concurrent waits of a session's stream.
    pub waits_per_session_max: usize,
    /// Concurrent streams (RPCs) per connection.
    pub connection_streams_max: u32,
    /// Connections per client address, of which an IPv6 /64 is one; 0: a quarter of all.
    pub connections_per_peer_max: usize,
    /// Connections that have not shown credentials, where they are required. Above it the oldest is
    /// closed for a new one.
    pub unauthenticated_connections_max: usize,
    /// Bytes of messages that have begun and are incomplete, in total.
    pub unfinished_bytes_max: usize,
    /// The size of a call's headers, as HTTP/2 counts it.
    pub header_list_bytes_max: u32,
}

/// Traces.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// The collector of traces (OTLP over gRPC), as `http://host:4317`; empty: the one in
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, or none.
    pub otlp_endpoint: String,
    /// The sampled fraction of traces that begin here. The sampling of a caller's trace is the
    /// caller's choice.
    pub sample_ratio: f64,
}

impl Settings {
    const SECTIONS: [&str; 15] = [
        "server",
        "server.tls",
        "auth",
        "access",
        "access.quotas",
        "audit",
        "admin",
        "store",
        "store.tls",
        "session",
        "fleet",
        "facades",
        "limits",
        "log",
        "telemetry",
    ];

    /// The keys with other values than these, as far as those can be shown.
    pub(crate) fn keys_unlike(&self, others: &Self) -> Vec<String> {
        let values = [self, others].map(load::values);
        let [own, others] = &values;
        let differs = |key: &&String| own.get(*key) != others.get(*key);
        own.keys().filter(differs).cloned().collect()
    }

    /// The settings as TOML. Secrets are replaced by a word that is refused when it is read back.
    pub fn to_redacted_toml(&self) -> String {
        toml::to_string(self).expect("settings are plain tables")
    }
}

// === impl Server ===

impl Server {
    /// The number of threads that serve callers on a machine with `cores` cores; see
    /// docs/operating/capacity.md.
    pub fn workers(&self, cores: usize) -> usize {
        match self.worker_threads {
            0 => threads::half_of(cores),
            chosen => chosen,
        }
    }
}

// === defaults ===

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: OptionalAddress(Some(SocketAddr::from(([127, 0, 0, 1], 7625)))),
            uds_path: PathBuf::new(),
            uds_mode: UnixMode::default(),
            allow_unauthenticated: false,
            connections_max: 0,
            worker_threads: 0,
            busy_poll: Duration::from_micros(200),
            handshake_timeout: Duration::from_secs(10),
            connection_age_max: Duration::ZERO,
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            drain_grace: Duration::from_secs(10),
            grpc_web: false,
            http_json: true,
            allowed_hosts: Vec::new(),
            tls: ServerTls::default(),
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: StoreUrl::default(),
            password_file: PathBuf::new(),
            tls: StoreTls::default(),
            client_name: "lockkeeper".to_owned(),
            key_prefix: String::new(),
            quorum: Vec::new(),
            quorum_member_timeout: Duration::from_millis(250),
            call_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(1),
            replica_acks: ReplicaAcks::None,
            replica_ack_timeout: Duration::from_secs(1),
            connections: 1,
            pubsub_ping_interval: Duration::from_secs(1),
            poll_interval: Duration::from_secs(1),
            idle_token_retention: Duration::from_secs(7 * 24 * 3600),
            request_retention: Duration::from_secs(60),
            fair_waiter_timeout: Duration::from_secs(5),
            writer_hold_back: Duration::from_secs(5),
            adopt_redisson_counters: false,
            native_commands: false,
            shares_names: false,
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self {
            secret: Secret::default(),
            secret_file: PathBuf::new(),
            resume_max: Duration::from_secs(24 * 3600),
            lease: Duration::from_secs(30),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            name_bytes_max: 512,
            owner_bytes_max: 128,
            request_id_bytes_max: 128,
            client_name_bytes_max: 128,
            message_bytes_max: 1024 * 1024,
            lease_min: Duration::from_millis(100),
            lease_max: Duration::from_secs(24 * 3600),
            waiters_per_lock_max: 0,
            waiters_max: 0,
            sessions_max: 0,
            grants_per_session_max: 100_000,
            locks_per_request_max: 250,
            holders_per_lock_max: 10_000,
            permits_per_name_max: 10_000,
            operations_per_session_max: 1024,
            waits_per_session_max: 20_000,
            connection_streams_max: 20_000,
            connections_per_peer_max: 0,
            unauthenticated_connections_max: 1000,
            unfinished_bytes_max: 32 * 1024 * 1024,
            header_list_bytes_max: 16 * 1024,
        }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            otlp_endpoint: String::new(),
            sample_ratio: 1.0,
        }
    }
}
