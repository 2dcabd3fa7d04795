//! Sessions that have ended.

use std::time::Duration;

use super::{answers::answered, voters::Quorum};
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
        if answered(&answers) < self.majority() {
            return Err(CallError::Unavailable(self.too_few(&answers)));
        }
        Ok(())
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
        if answered(&answers) < self.majority() {
            return Err(CallError::Unavailable(self.too_few(&answers)));
        }
        Ok(answers.iter().flatten().any(|ended| *ended))
    }
}
