//! What a session is known by.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// A session's id: a random UUID, known only to those who may act as the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

/// What happens to the grants when the stream breaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// They stay until their leases end, and the session can be resumed.
    #[default]
    Keep,
    /// They are released at once.
    Release,
}

/// Digits of a session's digest that are shown: enough to tell sessions apart.
const DIGEST_CHARS: usize = 16;

// === impl SessionId ===

impl SessionId {
    /// A new session.
    pub fn random() -> Self {
        Self(Uuid::new_v4().to_string().into())
    }

    /// Accepts any UUID in the form it was given out; whether there is such a session is another
    /// question.
    pub fn parse(id: &str) -> Option<Self> {
        Uuid::try_parse(id)
            .ok()
            .filter(|uuid| uuid.to_string() == id)
            .map(|_| Self(id.into()))
    }

    /// The id. A credential: it must not be logged or shown to others.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What others may see of the id.
    pub fn digest(&self) -> String {
        digest(&self.0)
    }
}

/// What others may see of a credential.
pub(crate) fn digest(credential: &str) -> String {
    let mut digest = hex::encode(Sha256::digest(credential.as_bytes()));
    digest.truncate(DIGEST_CHARS);
    digest
}
