//! Reasons why a grant is gone.

use std::time::Duration;

use lockkeeper_store::script::{Hold, Mode, Ownership};
use tokio::time::Instant;

use crate::{
    core::Core,
    session::session::Session,
    types::{GrantKey, Holding, LockName, LostReason, Owner},
};

// === impl Core ===

impl Core {
    /// Why a session lost a grant that the store says is gone: it may have been released by force
    /// at another coordinator.
    pub(crate) async fn why_lost(
        &self,
        session: &Session,
        key: &GrantKey,
        ownership: Ownership,
    ) -> LostReason {
        match session.grant(key) {
            Some(grant) => self.why_gone(&Holding::Lock(grant), ownership).await,
            None => ownership.into(),
        }
    }

    /// The same for a grant that a session may not know.
    pub(crate) async fn why_gone(&self, holding: &Holding, ownership: Ownership) -> LostReason {
        let Some(grant) = holding.lock() else {
            return ownership.into();
        };
        match self.scripts.forced(grant.name.store_key()).await {
            Ok(Some(record)) if record.token == grant.fencing_token => LostReason::ForceReleased {
                reason: record.reason.into(),
                closed_until: closed_until(record.grace),
                preempted: record.preempted,
            },
            Ok(_) | Err(_) => ownership.into(),
        }
    }

    /// A former holder has released a grant that was lost to a forced release: the lock need not
    /// stay closed for it any longer. Returns whether it is open now. If the store does not answer,
    /// the grace period ends by itself.
    pub(crate) async fn acknowledge_forced(
        &self,
        name: &LockName,
        mode: Mode,
        owner: &Owner,
    ) -> bool {
        let hold = Hold::new(name.store_key(), mode, owner.field());
        self.scripts.acknowledge_forced(hold).await.unwrap_or(false)
    }
}

/// The end of a grace period; `None` if it is over.
pub(crate) fn closed_until(grace: Duration) -> Option<Instant> {
    (!grace.is_zero()).then(|| Instant::now() + grace)
}
