//! Reasons why a grant is gone.

use lockkeeper_store::script::Ownership;

use crate::{
    core::Core,
    session::session::Session,
    types::{GrantKey, Holding, LostReason},
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
            Ok(Some(record)) if record.token == grant.fencing_token => {
                LostReason::ForceReleased(record.reason.into())
            }
            Ok(_) | Err(_) => ownership.into(),
        }
    }
}
