//! Waits that coordinators share. They decide nothing about locks, so any store will do.

use std::time::Duration;

use super::voters::Quorum;
use crate::script::{CallError, SharedWaits};

// === impl Quorum ===

impl Quorum {
    /// In all stores that answer. Returns the time of the first of them.
    pub(in crate::script) async fn share_waits(
        &self,
        digest: &str,
        key: &str,
        ttl: Duration,
        waits: Option<&str>,
    ) -> Result<u64, CallError> {
        let answers = self
            .ask(digest, |voter| voter.scripts.share_waits(key, ttl, waits))
            .await;
        Ok(self.outcomes(answers, 1)?[0])
    }

    /// What was written last in the stores that answer.
    pub(in crate::script) async fn shared_waits(
        &self,
        digest: &str,
        key: &str,
    ) -> Result<Option<SharedWaits>, CallError> {
        let answers = self
            .ask(digest, |voter| voter.scripts.shared_waits(key))
            .await;
        let shared = self.outcomes(answers, 1)?.into_iter().flatten();
        Ok(shared.min_by_key(|shared| shared.age))
    }
}
