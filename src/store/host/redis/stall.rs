//! A server that has stopped answering: few calls are made until it goes on.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Calls sent meanwhile. They must fit into the buffers of the two kernels, or the connection would
/// be taken for dead, and with it would go the order of what was sent.
const CALLS_MAX: usize = 64;

/// Whether the server of one connection has stopped answering.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// 0 while the server answers in time; from then on one more than the calls that were made.
    calls: AtomicUsize,
    begun: Notify,
}

// === impl Stall ===

impl Stall {
    /// Whether one more call may be made.
    pub(super) fn admits(&self) -> bool {
        // In one step: after the end, a count from before it would be a stall that nobody ends.
        let counted = |calls: usize| (calls > 0).then(|| calls.saturating_add(1));
        let (Ok(before) | Err(before)) =
            self.calls
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted);
        before < CALLS_MAX
    }

    /// A call was not answered in time.
    pub(super) fn begins(&self) {
        if self.calls.fetch_max(1, Ordering::Relaxed) == 0 {
            self.begun.notify_one();
        }
    }

    /// Resolves once for each time that the server stops answering.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// The server has answered.
    pub(super) fn ends(&self) {
        self.calls.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicBool, thread};

    use futures::FutureExt as _;

    use super::*;

    fn admitted(stall: &Stall, calls: usize) -> usize {
        (0..calls).filter(|_| stall.admits()).count()
    }

    #[test]
    fn few_calls_are_admitted_until_it_ends() {
        let stall = Stall::default();
        let many = 2 * CALLS_MAX;
        assert_eq!(admitted(&stall, many), many);
        stall.begins();
        assert_eq!(admitted(&stall, many), CALLS_MAX - 1);
        stall.ends();
        assert_eq!(admitted(&stall, many), many);
    }

    #[test]
    fn it_begins_anew_however_many_calls_are_admitted_while_it_ends() {
        let (stall, is_over) = (Stall::default(), AtomicBool::new(false));
        let missed = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    stall.admits();
                }
            });
            let missed = (0..300_000).filter(|_| {
                stall.begins();
                let is_missed = stall.begun().now_or_never().is_none();
                stall.ends();
                is_missed
            });
            let missed = missed.count();
            is_over.store(true, Ordering::Relaxed);
            missed
        });
        assert_eq!(missed, 0);
    }
}
