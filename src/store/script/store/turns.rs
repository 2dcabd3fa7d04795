//! Calls about many locks take turns: calls about one lock come in between, and wait for one long
//! script at most.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::script::CallError;

/// A call about more locks than this waits for its turn. A script about as many takes about a
/// millisecond.
const FEW: usize = 50;

/// A call that waits longer for its turn fails, and has not run.
const PATIENCE: Duration = Duration::from_secs(2);

/// The turns at one store. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Turns(Arc<Semaphore>);

// === impl Turns ===

impl Turns {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }

    /// Waits until a call about this many locks may be made. Its turn ends when the permit is
    /// dropped; a call about few locks needs none.
    pub(super) async fn next(
        &self,
        locks: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, CallError> {
        if locks <= FEW {
            return Ok(None);
        }
        match timeout(PATIENCE, Arc::clone(&self.0).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(Some(turn)),
            _ => Err(CallError::Unavailable(
                "too many calls about many locks are in progress".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_call_about_many_locks_is_made_at_a_time() {
        let turns = Turns::new();
        let first = turns.next(FEW + 1).await.unwrap();
        for locks in [1, FEW] {
            assert!(turns.next(locks).await.unwrap().is_none());
        }
        let refused = turns.next(FEW + 1).await.unwrap_err();
        assert!(matches!(refused, CallError::Unavailable(_)), "{refused}");
        let (next, ()) = tokio::join!(turns.next(1000), async { drop(first) });
        assert!(next.unwrap().is_some());
    }
}
