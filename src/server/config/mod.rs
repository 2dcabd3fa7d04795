//! The settings of a coordinator: defaults, then a TOML file, then the environment
//! (`LOCKKEEPER__SECTION__KEY`), then flags.
//!
//! Plain data. Each layer makes its own configuration from it in `server.rs`, so nothing here knows
//! a layer.

mod address;
mod load;
mod replica_acks;
mod secret;
mod security;
#[cfg(test)]
mod tests;
mod tls;
mod validate;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use lockkeeper_base::threads;
use serde::{Deserialize, Serialize};

pub use self::{
    address::{OptionalAddress, UnixMode},
    load::{Flag, Refused, Sources},
    replica_acks::ReplicaAcks,
    secret::{Secret, StoreUrl},
    security::{Access, AccessQuotas, AccessRight, AccessRule, Auth, ServerTls},
};

/// Everything that can be set.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The gRPC server.
    pub server: Server,
    /// How callers show who they are.
    pub auth: Auth,
    /// What they may do.
    pub access: Access,
    /// The admin port: probes for machines, pages for people.
    pub admin: Admin,
    /// Where the locks are kept.
    pub store: Store,
    /// Sessions.
    pub session: Session,
    /// What is refused, so that no client can use up the coordinator.
    pub limits: Limits,
    /// What is written to stderr.
    pub log: Log,
    /// Traces.
    pub telemetry: Telemetry,
}

/// The gRPC server.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Where to listen; empty: only at `uds_path`.
    pub listen: OptionalAddress,
    /// A Unix-domain socket to listen at; empty: none.
    pub uds_path: PathBuf,
    /// Who may connect to it, as a file mode.
    pub uds_mode: UnixMode,
    /// Lets callers in without credentials, from other machines too.
    pub allow_unauthenticated: bool,
    /// Connections at once; more are closed at once. Fewer where there may not be as many open
    /// files.
    pub connections_max: usize,
    /// Threads that serve callers; 0: half as many as there are cores, at least one.
    pub worker_threads: usize,
    /// How long the thread looks for the next event before it sleeps, where that has paid lately;
    /// zero: not at all, at most 10 ms. Only with one thread.
    #[serde(with = "humantime_serde")]
    pub busy_poll: Duration,
    /// How long a new connection may take until it speaks HTTP/2, its TLS handshake included.
    #[serde(with = "humantime_serde")]
    pub handshake_timeout: Duration,
    /// How often a silent connection is asked whether it lives.
    #[serde(with = "humantime_serde")]
    pub keepalive_interval: Duration,
    /// How long it may take to answer before it counts as dead.
    #[serde(with = "humantime_serde")]
    pub keepalive_timeout: Duration,
    /// How long stopping waits for what is under way.
    #[serde(with = "humantime_serde")]
    pub drain_grace: Duration,
    /// Whether gRPC-Web is understood.
    pub grpc_web: bool,
    /// TLS.
    pub tls: ServerTls,
}

/// The admin port.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Where to listen; empty: there is none.
    pub listen: OptionalAddress,
    /// Shows everything to callers without credentials, on other machines too; probes and metrics
    /// are open in any case.
    pub allow_unauthenticated: bool,
    /// Whether the console can take locks away.
    pub allow_force_release: bool,
}

/// Where the locks are kept.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// `embedded:`, `redis://…` or `rediss://…`.
    pub url: StoreUrl,
    /// A file to read the password of `url` from, so that it need not stand in the configuration;
    /// empty: none.
    pub password_file: PathBuf,
    /// Certificates for `rediss://`.
    pub tls: StoreTls,
    /// How the coordinator's connections are called in the store's `CLIENT LIST`.
    pub client_name: String,
    /// Put before every name in the store. Clients do not see it.
    pub key_prefix: String,
    /// Several stores that are independent of each other, instead of `url`: locks are held on a
    /// majority of them.
    pub quorum: Vec<StoreUrl>,
    /// How long one of several stores may take to answer before it is left behind.
    #[serde(with = "humantime_serde")]
    pub quorum_member_timeout: Duration,
    /// How long a call may take before its outcome counts as unknown.
    #[serde(with = "humantime_serde")]
    pub call_timeout: Duration,
    /// How long connecting may take.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// How many replicas must know of a grant, a renewal or a release before it counts; requests
    /// may ask for more.
    pub replica_acks: ReplicaAcks,
    /// How long they are waited for.
    #[serde(with = "humantime_serde")]
    pub replica_ack_timeout: Duration,
    /// Connections that carry the commands of all callers.
    pub connections: usize,
    /// How often the connection that carries wake-ups is asked whether it lives.
    #[serde(with = "humantime_serde")]
    pub pubsub_ping_interval: Duration,
    /// How long a wait sleeps at most before it looks again, because wake-ups are only hints.
    #[serde(with = "humantime_serde")]
    pub poll_interval: Duration,
    /// How long the fencing counter of an idle name is kept; zero: for ever.
    #[serde(with = "humantime_serde")]
    pub idle_token_retention: Duration,
    /// How long the answer to a `request_id` is remembered.
    #[serde(with = "humantime_serde")]
    pub request_retention: Duration,
    /// How long a waiter of a fair lock keeps its place when its coordinator says nothing any more.
    #[serde(with = "humantime_serde")]
    pub fair_waiter_timeout: Duration,
    /// How long a writer that waits holds new readers back; then they are let in for as long.
    #[serde(with = "humantime_serde")]
    pub writer_hold_back: Duration,
}

/// Certificates for `rediss://`, in PEM form; empty: none.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreTls {
    /// Whom to trust instead of the system's authorities.
    pub ca_file: PathBuf,
    /// What to show to the store, with `key_file`.
    pub certificate_file: PathBuf,
    /// The key of `certificate_file`.
    pub key_file: PathBuf,
}

/// Sessions.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Session {
    /// Signs resume tokens. Coordinators that share it can resume each other's sessions; empty: a
    /// random one per start.
    pub secret: Secret,
    /// A file to read `secret` from, so that it need not stand in the configuration; empty: none.
    pub secret_file: PathBuf,
    /// The lease of sessions and of sessionless grants that name none.
    #[serde(with = "humantime_serde")]
    pub lease: Duration,
}

/// What is refused, so that no client can use up the coordinator.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The longest name of a lock.
    pub name_bytes_max: usize,
    /// The longest owner.
    pub owner_bytes_max: usize,
    /// The longest request id.
    pub request_id_bytes_max: usize,
    /// The longest client name.
    pub client_name_bytes_max: usize,
    /// The largest gRPC message.
    pub message_bytes_max: usize,
    /// The shortest lease.
    #[serde(with = "humantime_serde")]
    pub lease_min: Duration,
    /// The longest lease.
    #[serde(with = "humantime_serde")]
    pub lease_max: Duration,
    /// Waits for one lock.
    pub waiters_per_lock_max: usize,
    /// Waits for all locks together.
    pub waiters_max: usize,
    /// Live sessions.
    pub sessions_max: usize,
    /// Grants that one session holds.
    pub grants_per_session_max: usize,
    /// Locks that one request names.
    pub locks_per_request_max: usize,
    /// Short operations that one session's stream has under way; more are left unread until some
    /// are answered.
    pub operations_per_session_max: usize,
    /// Waits that one session's stream has under way.
    pub waits_per_session_max: usize,
    /// Concurrent streams (RPCs) of one connection.
    pub connection_streams_max: u32,
    /// Connections from one address.
    pub connections_per_peer_max: usize,
    /// The headers of one call, as HTTP/2 counts them.
    pub header_list_bytes_max: u32,
}

/// What is written to stderr.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// For people or for machines.
    pub format: LogFormat,
    /// A level, or a list of `target=level`; `RUST_LOG` goes before it.
    pub level: String,
}

/// Traces.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Telemetry {
    /// The collector that traces are sent to by OTLP over gRPC, as `http://host:4317`; empty: what
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` names, or none.
    pub otlp_endpoint: String,
    /// The part of the traces that begin here that is sent. Whether a caller's trace is, the caller
    /// says.
    pub sample_ratio: f64,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Settings {
    const SECTIONS: [&str; 12] = [
        "server",
        "server.tls",
        "auth",
        "access",
        "access.quotas",
        "admin",
        "store",
        "store.tls",
        "session",
        "limits",
        "log",
        "telemetry",
    ];

    /// The settings as TOML. Secrets are replaced by a word that is refused when it is read back.
    pub fn to_redacted_toml(&self) -> String {
        toml::to_string(self).expect("settings are plain tables")
    }
}

impl TryFrom<String> for LogFormat {
    type Error = &'static str;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        match word.as_str() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("must be text or json"),
        }
    }
}

// === impl Server ===

impl Server {
    /// How many threads serve callers on a machine with so many cores; see docs/operating.md.
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
            connections_max: 20_000,
            worker_threads: 0,
            busy_poll: Duration::from_micros(200),
            handshake_timeout: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            drain_grace: Duration::from_secs(10),
            grpc_web: false,
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
        }
    }
}

impl Default for Session {
    fn default() -> Self {
        Self {
            secret: Secret::default(),
            secret_file: PathBuf::new(),
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
            message_bytes_max: 4 * 1024 * 1024,
            lease_min: Duration::from_millis(100),
            lease_max: Duration::from_secs(24 * 3600),
            waiters_per_lock_max: 20_000,
            waiters_max: 200_000,
            sessions_max: 100_000,
            grants_per_session_max: 100_000,
            locks_per_request_max: 1000,
            operations_per_session_max: 1024,
            waits_per_session_max: 20_000,
            connection_streams_max: 20_000,
            connections_per_peer_max: 10_000,
            header_list_bytes_max: 16 * 1024,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            level: "info".to_owned(),
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
