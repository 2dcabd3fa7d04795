//! What concerns locks of others: which there are, and taking them away.

use super::{Scripts, Store};
use crate::script::{CallError, Forced, ForcedRecord, NameKind, WalkCursor};

// === impl Scripts ===

impl Scripts {
    /// Some names in use that begin with this, sorted, with what they stand for, and where to go
    /// on. `work` bounds the keys that are looked at.
    pub async fn walk(
        &self,
        from: WalkCursor,
        prefix: &str,
        work: u32,
    ) -> Result<(Vec<(String, NameKind)>, Option<WalkCursor>), CallError> {
        match &self.store {
            Store::One(scripts) => {
                let (names, next) = scripts.scan_names(from.at, prefix, work).await?;
                let kinds = scripts.kinds(&names).await?;
                let known = names.into_iter().zip(kinds);
                let known = known.filter_map(|(name, kind)| Some((name, kind?)));
                Ok((known.collect(), next.map(|at| WalkCursor { store: 0, at })))
            }
            Store::Quorum(quorum) => quorum.walk(from, prefix, work).await,
        }
    }

    /// Takes every hold of a lock away, whoever has it, and tells at most `max` of them; none if
    /// nobody held it.
    pub async fn force_release(
        &self,
        name: &str,
        reason: &str,
        max: u32,
    ) -> Result<Option<Forced>, CallError> {
        match &self.store {
            Store::One(scripts) => scripts.force_release(name, reason, max).await,
            Store::Quorum(quorum) => quorum.force_release(name, reason, max).await,
        }
    }

    /// What is known of the last release of a lock by force. Changes nothing.
    pub async fn forced(&self, name: &str) -> Result<Option<ForcedRecord>, CallError> {
        match &self.store {
            Store::One(scripts) => scripts.forced(name).await,
            Store::Quorum(quorum) => quorum.forced(name).await,
        }
    }
}
