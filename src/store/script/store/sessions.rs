//! Ended sessions: what the one store remembers, or the stores of a quorum.

use std::time::Duration;

use super::scripts::{Scripts, Store};
use crate::script::CallError;

// === impl Scripts ===

impl Scripts {
    /// Remembers for so long that a session has ended. `whose` is its identity, behind the prefix
    /// of all names; of each, the last 10,000 are remembered. Safe to repeat.
    pub async fn end_session(
        &self,
        whose: &str,
        digest: &str,
        retention: Duration,
    ) -> Result<(), CallError> {
        match &self.store {
            Store::One(store) => store.end_session(whose, digest, retention).await,
            Store::Quorum(quorum) => quorum.end_session(whose, digest, retention).await,
        }
    }

    /// Whether a session is remembered as ended.
    pub async fn has_session_ended(&self, whose: &str, digest: &str) -> Result<bool, CallError> {
        match &self.store {
            Store::One(store) => store.has_session_ended(whose, digest).await,
            Store::Quorum(quorum) => quorum.has_session_ended(whose, digest).await,
        }
    }
}
