//! Undoing attempts, and calls that are repeated until the store answers.

use std::{future::Future, time::Duration};

use lockkeeper_store::script::{Attempt, CallError, Hold};
use tokio::{task::JoinHandle, time::Instant};

use crate::{core::Core, error::Error};

/// The first pause before an undo or a release is sent again; [`RETRY_MAX`] is the longest.
const RETRY_MIN: Duration = Duration::from_millis(50);

const RETRY_MAX: Duration = Duration::from_secs(1);

/// An error if the lease of a grant may have been over when its answer came.
pub(crate) fn expect_valid(safe_until: Instant) -> Result<(), Error> {
    if safe_until <= Instant::now() {
        let why = "the answer came when the lease was over".to_owned();
        return Err(CallError::OutcomeUnknown(why).into());
    }
    Ok(())
}

// === impl Core ===

impl Core {
    /// Undoes an attempt, and repeats until the store answers or the lease is over. True if a hold
    /// was taken back.
    pub(crate) async fn undo(&self, hold: Hold<'_>, attempt: Attempt<'_>, lease: Duration) -> bool {
        let undo = || self.scripts.undo(hold, attempt);
        let undone = self.until_answered(lease, undo).await;
        self.count_undone(undone);
        undone.unwrap_or(false)
    }

    /// Why a grant is refused that too few replicas have acknowledged. Its attempt is undone first,
    /// unless it was answered as a repeat: then the first answer may have arrived.
    pub(crate) async fn not_replicated(
        &self,
        error: CallError,
        undo: Option<JoinHandle<()>>,
    ) -> Error {
        if let Some(undo) = undo {
            let _ = tokio::time::timeout(self.config.call_timeout, undo).await;
        }
        error.into()
    }

    /// Counts a hold that was taken back, if the store said so.
    pub(crate) fn count_undone(&self, undone: Option<bool>) {
        if undone == Some(true) {
            self.metrics.orphan_reclaimed();
        }
    }

    /// Repeats an idempotent call until the store answers, or until its subject is over anyway.
    pub(crate) async fn until_answered<T, F>(
        &self,
        at_most: Duration,
        call: impl Fn() -> F,
    ) -> Option<T>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let give_up = Instant::now() + at_most;
        let mut pause = RETRY_MIN;
        loop {
            let error = match call().await {
                Ok(answer) => return Some(answer),
                Err(error) => error,
            };
            let transient = matches!(
                error,
                CallError::Unavailable(_) | CallError::OutcomeUnknown(_)
            );
            if !transient || Instant::now() + pause > give_up {
                tracing::debug!(%error, "left to its lease");
                return None;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }
}
