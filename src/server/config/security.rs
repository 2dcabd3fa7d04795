//! Who may connect, how callers authenticate, and what they may do.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

/// The server's certificates (PEM); empty: none. Reloaded on change.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTls {
    /// The server certificate, with `key_file`.
    pub certificate_file: PathBuf,
    /// The key of `certificate_file`.
    pub key_file: PathBuf,
    /// The authority of client certificates.
    pub client_ca_file: PathBuf,
    /// The revocation lists of that authority, and of those between it and the clients.
    pub client_crl_file: PathBuf,
}

/// Bearer tokens.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// A file with an identity, a space and its token on each line; empty: none.
    pub token_file: PathBuf,
    /// The keys of JWT issuers, as a JWKS; empty: none.
    pub jwks_file: PathBuf,
    /// The required issuer of JWTs (`iss`).
    pub jwt_issuer: String,
    /// The required audience of JWTs (`aud`).
    pub jwt_audience: String,
    /// The longest time from the issue of a JWT (`iat`, at the latest now) to its end (`exp`);
    /// zero: any.
    #[serde(with = "humantime_serde")]
    pub jwt_lifetime_max: Duration,
    /// Accepts tokens without TLS from other machines, where another layer encrypts.
    pub allow_plaintext: bool,
}

/// The audit log.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// A file of JSON lines; empty: the audit log is a part of the log.
    pub file: PathBuf,
    /// Calls wait until their line is written. Otherwise lines may be lost, which are counted.
    pub blocking: bool,
}

/// What callers may do.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// The rules. With at least one, calls that no rule allows are refused.
    pub rules: Vec<AccessRule>,
    /// How much each identity may use.
    pub quotas: AccessQuotas,
}

/// The rights of some identities to some names.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRule {
    /// An identity, or with `*` at its end a prefix of identities.
    pub identity: String,
    /// The prefix of names; empty: all.
    #[serde(default)]
    pub prefix: String,
    /// The rights.
    pub allow: Vec<AccessRight>,
}

/// A right that a rule can grant.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum AccessRight {
    /// Acquire, wait, renew, resume, and set permits and counts.
    Acquire,
    /// Release one's own grants.
    Release,
    /// See holders and waiters, and check tokens.
    Describe,
    /// Take locks away from holders that were asked to yield.
    Preempt,
    /// List, watch and force-release locks held by other callers.
    Admin,
}

/// How much each identity may use at one coordinator; 0: a quarter of the limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct AccessQuotas {
    /// Sessions.
    pub sessions: u32,
    /// Grants; each permit counts.
    pub grants: u32,
    /// Waiting calls.
    pub waiters: u32,
    /// Waiting calls for one name.
    pub waiters_per_lock: u32,
    /// Streams of requests: of sessions, and of reflection.
    pub streams: u32,
    /// Calls and frames per second; 0: unlimited.
    pub requests_per_second: u32,
}

// === impl Auth ===

impl Auth {
    /// Whether tokens are accepted.
    pub fn takes_tokens(&self) -> bool {
        is_set(&self.token_file) || is_set(&self.jwks_file)
    }
}

// === impl AccessRight ===

impl TryFrom<String> for AccessRight {
    type Error = String;

    fn try_from(word: String) -> Result<Self, Self::Error> {
        Ok(match word.as_str() {
            "acquire" => Self::Acquire,
            "release" => Self::Release,
            "describe" => Self::Describe,
            "preempt" => Self::Preempt,
            "admin" => Self::Admin,
            _ => {
                let known = "must be acquire, release, describe, preempt or admin";
                return Err(format!("{word:?} is no right: {known}"));
            }
        })
    }
}

pub(super) fn is_set(path: &std::path::Path) -> bool {
    !path.as_os_str().is_empty()
}
