//! Bounds of everything that grows, and the error of a refused request field.

use std::{sync::Arc, time::Duration};

use icu_properties::{CodePointMapData, props::GeneralCategory};

/// Bounds of everything that grows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Prefix of every name in the store; clients do not see it. It belongs here because every name
    /// is made under these limits.
    pub key_prefix: Arc<str>,
    /// Maximum bytes of a lock name.
    pub name_bytes_max: usize,
    /// Maximum bytes of an owner.
    pub owner_bytes_max: usize,
    /// Maximum bytes of a request id.
    pub request_id_bytes_max: usize,
    /// Maximum bytes of a client name.
    pub client_name_bytes_max: usize,
    /// The shortest lease.
    pub lease_min: Duration,
    /// The longest lease.
    pub lease_max: Duration,
    /// Maximum waits for one lock at this coordinator.
    pub waiters_per_lock_max: usize,
    /// Maximum waits at this coordinator.
    pub waiters_max: usize,
    /// Maximum waits of one session.
    pub waits_per_session_max: usize,
    /// Maximum sessions at this coordinator.
    pub sessions_max: usize,
    /// Maximum grants of one session.
    pub grants_per_session_max: usize,
    /// Maximum locks in one request.
    pub locks_per_request_max: usize,
}

/// An invalid request field.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{field}: {why}")]
pub struct Invalid {
    /// The field's name in the request.
    pub field: &'static str,
    /// Why it is invalid.
    pub why: String,
}

// === impl Limits ===

impl Limits {
    /// Validates the name that a client gives itself.
    pub fn client_name(&self, name: String) -> Result<String, Invalid> {
        match over(&name, self.client_name_bytes_max) {
            Some(why) => Err(Invalid::new("client_name", why)),
            None => Ok(name),
        }
    }
}

// === impl Invalid ===

impl Invalid {
    /// Refuses a field.
    pub fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self {
            field,
            why: why.into(),
        }
    }
}

/// Why a text is refused: too long, or with characters that would garble logs and terminals, or
/// make it look like another text.
pub(crate) fn over(text: &str, bytes_max: usize) -> Option<String> {
    if text.len() > bytes_max {
        Some(format!(
            "must not be longer than {bytes_max} bytes, but has {}",
            text.len()
        ))
    } else if !is_printable_ascii(text) && text.chars().any(is_hidden) {
        Some("must not contain control or format characters".to_owned())
    } else {
        None
    }
}

/// Without a branch for each byte, so that many are looked at in one step.
fn is_printable_ascii(text: &str) -> bool {
    let odd = |any, byte: u8| any | !(b' '..=b'~').contains(&byte);
    !text.bytes().fold(false, odd)
}

/// Whether a character is not seen itself but changes how others are: the control characters, and
/// Unicode's format characters (Cf), such as those that turn the direction of writing.
fn is_hidden(letter: char) -> bool {
    let category = || CodePointMapData::<GeneralCategory>::new().get(letter);
    letter.is_control() || (!letter.is_ascii() && category() == GeneralCategory::Format)
}
