//! Sessions that have ended.

use std::time::Duration;

use super::voters::Quorum;
use crate::script::CallError;

// === impl Quorum ===

impl Quorum {
    /// A majority has to remember it.
    pub(in crate::script) async fn end_session(
        &self,
        whose: &str,
        digest: &str,
        retention: Duration,
    ) -> Result<(), CallError> {
        let answers = self
            .ask(whose, |voter| {
                voter.scripts.end_session(whose, digest, retention)
            })
            .await;
        self.outcomes(answers, self.majority()).map(drop)
    }

    /// Any store of those that answer, which has to be a majority.
    pub(in crate::script) async fn has_session_ended(
        &self,
        whose: &str,
        digest: &str,
    ) -> Result<bool, CallError> {
        let answers = self
            .ask(whose, |voter| {
                voter.scripts.has_session_ended(whose, digest)
            })
            .await;
        let ended = self.outcomes(answers, self.majority())?;
        Ok(ended.contains(&true))
    }
}
