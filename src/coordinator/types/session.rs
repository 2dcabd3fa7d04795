//! Identifiers and settings of a session.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// A session's id: a random UUID, known only to callers that may act as the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

/// The effect of a broken stream on the grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// They stay until their leases end, and the session can be resumed.
    #[default]
    Keep,
    /// They are released at once.
    Release,
}

/// Digits shown of a session's digest: enough to tell sessions apart.
const DIGEST_CHARS: usize = 16;

// === impl SessionId ===

impl SessionId {
    /// A new random id.
    pub fn random() -> Self {
        Uuid::new_v4().into()
    }

    /// The same, but it shares no text with this one.
    pub(crate) fn apart(&self) -> Self {
        Self(Arc::from(&*self.0))
    }

    /// The same without the memory that it shares with the session.
    pub(crate) fn uuid(&self) -> Uuid {
        // Each id is one.
        Uuid::try_parse(&self.0).unwrap_or_default()
    }

    /// Parses a UUID in the form it was issued; whether the session exists is another question.
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

    /// The digest that others may see.
    pub fn digest(&self) -> String {
        digest(&self.0)
    }
}

impl From<Uuid> for SessionId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid.to_string().into())
    }
}

/// The digest of a credential that others may see.
pub(crate) fn digest(credential: &str) -> String {
    let mut digest = hex::encode(Sha256::digest(credential.as_bytes()));
    digest.truncate(DIGEST_CHARS);
    digest
}
