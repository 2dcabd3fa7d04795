//! Waits that coordinators share: in the one store, or in those of a quorum.

use std::time::Duration;

use super::scripts::{Scripts, Store};
use crate::script::{CallError, SharedWaits, keys};

// === impl Scripts ===

impl Scripts {
    /// Shares the waits of the owner or session with this digest for so long, or takes them back if
    /// there are none. Names begin with `prefix`. Returns the store's time in milliseconds.
    pub async fn share_waits(
        &self,
        (prefix, digest): (&str, &str),
        ttl: Duration,
        waits: Option<&str>,
    ) -> Result<u64, CallError> {
        let key = keys::waits(prefix, digest);
        match &self.store {
            Store::One(store) => store.share_waits(&key, ttl, waits).await,
            Store::Quorum(quorum) => quorum.share_waits(digest, &key, ttl, waits).await,
        }
    }

    /// The waits that are shared of the owner or session with this digest.
    pub async fn shared_waits(
        &self,
        (prefix, digest): (&str, &str),
    ) -> Result<Option<SharedWaits>, CallError> {
        let key = keys::waits(prefix, digest);
        match &self.store {
            Store::One(store) => store.shared_waits(&key).await,
            Store::Quorum(quorum) => quorum.shared_waits(digest, &key).await,
        }
    }
}
