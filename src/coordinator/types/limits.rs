//! Bounds of what grows, and what a refused field of a request says.

use std::{sync::Arc, time::Duration};

/// Bounds of everything that grows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Put before every name in the store; clients do not see it. It stands here because every name
    /// is made under these limits.
    pub key_prefix: Arc<str>,
    /// Bytes of a lock name.
    pub name_bytes_max: usize,
    /// Bytes of an owner.
    pub owner_bytes_max: usize,
    /// Bytes of a request id.
    pub request_id_bytes_max: usize,
    /// Bytes of a client's name.
    pub client_name_bytes_max: usize,
    /// The shortest lease.
    pub lease_min: Duration,
    /// The longest lease.
    pub lease_max: Duration,
    /// Waits for one lock at this coordinator.
    pub waiters_per_lock_max: usize,
    /// Waits at this coordinator.
    pub waiters_max: usize,
    /// Waits of one session.
    pub waits_per_session_max: usize,
    /// Sessions at this coordinator.
    pub sessions_max: usize,
    /// Grants of one session.
    pub grants_per_session_max: usize,
    /// Locks that one request names.
    pub locks_per_request_max: usize,
}

/// A request field that cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{field}: {why}")]
pub struct Invalid {
    /// The field's name in the request.
    pub field: &'static str,
    /// What is wrong with it.
    pub why: String,
}

// === impl Invalid ===

impl Invalid {
    /// A refusal of a field.
    pub fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self {
            field,
            why: why.into(),
        }
    }
}

/// Why a text is refused: too long, or with control characters, which would garble logs and
/// terminals.
pub(crate) fn over(text: &str, bytes_max: usize) -> Option<String> {
    if text.len() > bytes_max {
        Some(format!(
            "must not be longer than {bytes_max} bytes, has {}",
            text.len()
        ))
    } else if text.chars().any(char::is_control) {
        Some("must not contain control characters".to_owned())
    } else {
        None
    }
}
