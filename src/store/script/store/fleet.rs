//! Coordinators that announce themselves: in the one store, or in those of a quorum.

use std::time::Duration;

use super::scripts::{Scripts, Store};
use crate::script::{CallError, OtherCoordinators, keys};

// === impl Scripts ===

impl Scripts {
    /// Announces the coordinator with this id for so long, and what it says of itself; if that is
    /// nothing, it leaves. Names begin with `prefix`. Returns the others.
    pub async fn announce(
        &self,
        prefix: &str,
        id: &str,
        ttl: Duration,
        said: Option<&str>,
    ) -> Result<OtherCoordinators, CallError> {
        let key = keys::coordinators(prefix);
        match &self.store {
            Store::One(store) => store.announce(&key, id, ttl, said).await,
            Store::Quorum(quorum) => quorum.announce(&key, id, ttl, said).await,
        }
    }
}
