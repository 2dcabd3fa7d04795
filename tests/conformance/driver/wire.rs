//! The lines that the driver reads and writes.

use std::{collections::BTreeMap, time::Duration};

use lockkeeper_client::{Error, LockMode};
use serde::Deserialize;
use serde_json::{Value, json};

/// A command, with the fields of all kinds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Command {
    pub(crate) id: u64,
    #[serde(rename = "do")]
    pub(crate) action: String,
    pub(crate) target: u64,
    pub(crate) endpoints: Vec<String>,
    pub(crate) client_name: String,
    pub(crate) release_on_disconnect: bool,
    pub(crate) token: Option<String>,
    pub(crate) token_file: Option<String>,
    pub(crate) ca_file: Option<String>,
    pub(crate) cert_file: Option<String>,
    pub(crate) key_file: Option<String>,
    pub(crate) server_name: Option<String>,
    pub(crate) name: String,
    pub(crate) names: Vec<String>,
    pub(crate) guard: String,
    pub(crate) mode: Option<String>,
    pub(crate) reason: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: String,
    pub(crate) feed: String,
    pub(crate) ticket: String,
    pub(crate) owner: Option<String>,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) lease_ms: Option<u64>,
    pub(crate) min_replica_acks: u32,
    pub(crate) permits: u32,
    pub(crate) count: u32,
    pub(crate) by: Option<u32>,
    pub(crate) fencing_token: Option<String>,
    pub(crate) seconds: f64,
    pub(crate) tasks: u64,
    pub(crate) hold_ms: u64,
    pub(crate) client: String,
    /// What the handler of a loss runs.
    pub(crate) on_lost: Option<Box<Self>>,
}

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: &'static str,
    reason: Option<String>,
    message: String,
}

/// Writes a line.
#[expect(
    clippy::print_stdout,
    reason = "the driver speaks on its standard output"
)]
pub(crate) fn print(event: &Value) {
    println!("{event}");
}

// === impl Command ===

impl Command {
    pub(crate) fn lease(&self) -> Option<Duration> {
        self.lease_ms.map(Duration::from_millis)
    }

    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait_ms.map(Duration::from_millis)
    }

    pub(crate) fn mode(&self) -> LockMode {
        match self.mode.as_deref() {
            Some("fair") => LockMode::Fair,
            Some("read") => LockMode::Read,
            Some("write") => LockMode::Write,
            _ => LockMode::Exclusive,
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(crate) fn of_kind(kind: &'static str) -> Self {
        Self {
            kind,
            reason: None,
            message: kind.to_owned(),
        }
    }

    pub(crate) fn answer(&self, id: u64) -> Value {
        let Self {
            kind,
            reason,
            message,
        } = self;
        json!({ "id": id, "error": { "kind": kind, "reason": reason, "message": message } })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (kind, reason) = match &error {
            Error::Misconfigured(_) => ("misconfigured", None),
            Error::Unreachable { .. } => ("unreachable", None),
            Error::NotGranted { reason, .. } => ("not_granted", Some(short(reason.as_str_name()))),
            Error::Lost { reason, .. } => ("lost", Some(short(reason.as_str_name()))),
            Error::SessionEnded(_) => ("session_ended", None),
            _ => ("refused", error.reason()),
        };
        Self {
            kind,
            reason,
            message: error.to_string(),
        }
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        Error::from(status).into()
    }
}

/// `EXPIRED` of `LOST_REASON_EXPIRED`.
pub(crate) fn short(name: &str) -> String {
    let rest = name.split_once("_REASON_").map(|(_, rest)| rest);
    rest.unwrap_or(name).to_owned()
}
