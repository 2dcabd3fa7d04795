//! Who calls, and what they may do. A leaf: it knows neither the protocol that brings credentials nor what a lock is.

mod audit;

pub use audit::Audited;

use std::sync::Arc;

/// Who calls: what a certificate or a token says, or nobody in particular where credentials are not asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity(Arc<str>);

/// What a rule can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Acquire, renew, and set what a semaphore or a latch has.
    Acquire,
    /// Give back what is one's own.
    Release,
    /// See who holds a name and who waits for it.
    Describe,
    /// List, watch and release what is others'.
    Admin,
}

/// Credentials that are missing or not good. Says why, for the caller; never what was shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unauthenticated(pub String);

/// The rules in force.
#[derive(Clone, Debug, Default)]
pub struct Access {}

// === impl Identity ===

impl Identity {
    /// Whoever calls where credentials are not asked for.
    pub fn anonymous() -> Self {
        Self("".into())
    }

    /// Its name; empty: anonymous.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl Access ===

impl Access {
    /// Asks for no credentials and allows everything.
    pub fn open() -> Self {
        Self::default()
    }

    /// Who shows this bearer token, or none.
    pub fn bearer(&self, _token: Option<&str>) -> Result<Identity, Unauthenticated> {
        Ok(Identity::anonymous())
    }

    /// Whether an identity may do something with the lock, semaphore or latch of this name.
    pub fn allows(&self, _identity: &Identity, _right: Right, _name: &str) -> bool {
        true
    }
}
