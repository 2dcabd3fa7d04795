//! Undoing attempts, and calls that are repeated until the store answers.

use std::{future::Future, time::Duration};

use lockkeeper_store::script::{Attempt, CallError, Hold};
use tokio::{task::JoinHandle, time::Instant};

use crate::{core::Core, error::Error, session::session::Session, types::OnDisconnect};

/// The first pause before an undo or a release is sent again; [`RETRY_MAX`] is the longest.
const RETRY_MIN: Duration = Duration::from_millis(50);

const RETRY_MAX: Duration = Duration::from_secs(1);

/// Undoes that go on after the lease of their attempt, at the same time. They bridge a store that
/// froze for longer than a lease: it executes the attempt late, and then nobody has the lock.
pub(crate) const LATE_UNDOS_MAX: usize = 1024;

/// How long each of them goes on.
const LATE_UNDO_MAX: Duration = Duration::from_secs(600);

/// An error if the lease of a grant may have been over when its answer came.
pub(crate) fn expect_valid(safe_until: Instant) -> Result<(), Error> {
    if safe_until <= Instant::now() {
        let why = "the answer came when the lease was over".to_owned();
        return Err(CallError::OutcomeUnknown(why).into());
    }
    Ok(())
}

/// Makes the call of an undo. `only_while`: a session that may have taken the same lock since,
/// after a resume, if the store would not tell that hold from this one. The undo is given up when
/// that session has no stream here: a resume then waits for the owner lock of the undo, and
/// confirms what the store has. Without a resume, the lease ends the hold.
pub(crate) async fn undo_while(
    only_while: Option<&Session>,
    undo: impl Future<Output = Result<bool, CallError>>,
) -> Result<bool, CallError> {
    // A session that releases its locks when its stream breaks is resumed nowhere else.
    let may_move = only_while.filter(|it| it.on_disconnect == OnDisconnect::Keep);
    if may_move.is_some_and(|session| session.expect_live().is_err()) {
        return Ok(false);
    }
    undo.await
}

// === impl Core ===

impl Core {
    /// Undoes an attempt, and repeats until the store answers. True if a hold was taken back.
    /// `only_while`: as in [`undo_while`].
    pub(crate) async fn undo(
        &self,
        hold: Hold<'_>,
        attempt: &Attempt<'_>,
        only_while: Option<&Session>,
    ) -> bool {
        let undo = || undo_while(only_while, self.scripts.undo(hold, attempt));
        self.until_undone(attempt.lease, undo).await
    }

    /// Repeats an undo until the store answers, and counts a hold that was taken back. After the
    /// lease it goes on for [`LATE_UNDO_MAX`], as one of at most [`LATE_UNDOS_MAX`].
    pub(crate) async fn until_undone<F>(&self, lease: Duration, undo: impl Fn() -> F) -> bool
    where
        F: Future<Output = Result<bool, CallError>>,
    {
        let mut undone = self.until_answered(lease, &undo).await;
        if undone.is_none()
            && let Ok(_room) = self.late_undos.try_acquire()
        {
            undone = self.until_answered(LATE_UNDO_MAX, undo).await;
        }
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
    fn count_undone(&self, undone: Option<bool>) {
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
            if !error.is_transient() || Instant::now() + pause > give_up {
                tracing::debug!(%error, "left to its lease");
                return None;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::testing::{MILLI, config, start};

    fn unavailable() -> CallError {
        CallError::Unavailable("by the test".to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_repeated_as_long_as_the_next_would_not_come_too_late() {
        let coordinator = start(config());
        // Calls are made at 0, 50, 150, 350, 750 and 1550 ms, and then each second.
        let rows = [
            (0, 1, 0),
            (49, 1, 0),
            (50, 2, 50),
            (149, 2, 50),
            (150, 3, 150),
            (1_549, 5, 750),
            (1_550, 6, 1_550),
            (2_550, 7, 2_550),
            (4_600, 9, 4_550),
        ];
        for (at_most, expected, last) in rows {
            let (calls, begun) = (Cell::new(0), Instant::now());
            let call = || {
                calls.set(calls.get() + 1);
                async { Err::<(), _>(unavailable()) }
            };
            let answer = coordinator.core.until_answered(MILLI * at_most, call).await;
            assert_eq!(answer, None);
            assert_eq!((calls.get(), begun.elapsed()), (expected, MILLI * last));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_ends_the_repeats_and_so_does_an_error_that_does_not_pass() {
        let coordinator = start(config());
        for (end, expected) in [(Ok(7), Some(7)), (Err(CallError::WrongKind), None)] {
            let calls = Cell::new(0);
            let call = || {
                calls.set(calls.get() + 1);
                let answer = if calls.get() < 3 {
                    Err(unavailable())
                } else {
                    end.clone()
                };
                async { answer }
            };
            let answer = coordinator.core.until_answered(MILLI * 9_000, call).await;
            assert_eq!((answer, calls.get()), (expected, 3));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_undoes_go_on_after_the_lease_and_only_so_long() {
        let coordinator = start(config());
        let core = &coordinator.core;
        let all = u32::try_from(LATE_UNDOS_MAX).unwrap();
        let lease = Duration::from_secs(30);
        for (others, longest) in [(all, lease), (all - 1, lease + LATE_UNDO_MAX)] {
            let _others = core.late_undos.try_acquire_many(others).unwrap();
            let begun = Instant::now();
            let undone = core.until_undone(lease, || async { Err(unavailable()) });
            assert!(!undone.await);
            let took = begun.elapsed();
            let missing = longest.saturating_sub(took);
            assert!(took <= longest && missing <= RETRY_MAX * 2, "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_holds_that_were_taken_back_are_counted() {
        let coordinator = start(config());
        let core = &coordinator.core;
        for (undone, counted) in [(None, 0), (Some(false), 0), (Some(true), 1)] {
            core.count_undone(undone);
            assert_eq!(core.metrics.orphans.get(), counted);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_whose_safe_time_is_over_is_none() {
        let now = Instant::now();
        assert!(expect_valid(now + MILLI).is_ok());
        assert!(expect_valid(now).is_err());
    }
}
