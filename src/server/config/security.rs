//! Who may connect, how they show who they are, and what they may do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Certificates of the server, in PEM form; empty: none. They are read again when they change.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTls {
    /// What to show to clients, with `key_file`.
    pub certificate_file: PathBuf,
    /// The key of `certificate_file`.
    pub key_file: PathBuf,
    /// Whose certificates clients must show.
    pub client_ca_file: PathBuf,
}

/// Bearer tokens.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// On each line an identity, a blank and its token; empty: none.
    pub token_file: PathBuf,
    /// The keys of those who issue JWTs, as a JWKS; empty: none.
    pub jwks_file: PathBuf,
    /// Who must have issued a JWT.
    pub jwt_issuer: String,
    /// For whom a JWT must be.
    pub jwt_audience: String,
    /// Takes tokens without TLS from other machines too, where something else encrypts.
    pub allow_plaintext: bool,
}

/// What callers may do.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// What is allowed; nothing else is as soon as there is one.
    pub rules: Vec<AccessRule>,
    /// How much each identity may have.
    pub quotas: AccessQuotas,
}

/// What some identities may do with some names.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRule {
    /// Whose: a name, or the beginning of names and `*`.
    pub identity: String,
    /// What the names begin with; empty: all names.
    #[serde(default)]
    pub prefix: String,
    /// What is allowed.
    pub allow: Vec<AccessRight>,
}

/// What can be allowed.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessRight {
    /// Acquire, wait, renew, resume, and set what a semaphore or a latch has.
    Acquire,
    /// Give back what is one's own.
    Release,
    /// See who holds a name and who waits for it, and check tokens.
    Describe,
    /// List, watch and release what is others'.
    Admin,
}

/// How much each identity may have at one coordinator; 0: as much as it likes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessQuotas {
    /// Sessions.
    pub sessions: u32,
    /// Grants of its sessions.
    pub grants: u32,
    /// Calls that wait.
    pub waiters: u32,
    /// Calls and frames in a second.
    pub requests_per_second: u32,
}

// === impl Auth ===

impl Auth {
    /// Whether tokens are taken.
    pub fn takes_tokens(&self) -> bool {
        is_set(&self.token_file) || is_set(&self.jwks_file)
    }
}

pub(super) fn is_set(path: &std::path::Path) -> bool {
    !path.as_os_str().is_empty()
}
