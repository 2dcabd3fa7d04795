//! Ended sessions: what the one store remembers, or the stores of a quorum.

use std::time::Duration;

use super::scripts::{Scripts, Store, on_store};
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
        on_store!(self, end_session(whose, digest, retention))
    }

    /// Whether a session is remembered as ended.
    pub async fn has_session_ended(&self, whose: &str, digest: &str) -> Result<bool, CallError> {
        on_store!(self, has_session_ended(whose, digest))
    }
}
