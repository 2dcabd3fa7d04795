//! Whether enough replicas know of what scripts have done.

use std::sync::Arc;

use parking_lot::Mutex;

use super::CallError;
use crate::host::{Acks, Replicas};

/// What replicas have acknowledged of the calls of one [`super::Scripts`]. Empty if nothing was to
/// be waited for.
#[derive(Clone, Debug, Default)]
pub struct ReplicationStatus(Option<Arc<WorstCall>>);

#[derive(Debug)]
struct WorstCall {
    replicas: Replicas,
    /// Of the call that fared worst.
    least: Mutex<Option<Acks>>,
}

// === impl ReplicationStatus ===

impl ReplicationStatus {
    pub(super) fn of(replicas: Option<Replicas>) -> Self {
        Self(replicas.map(|replicas| {
            let least = Mutex::new(None);
            Arc::new(WorstCall { replicas, least })
        }))
    }

    /// What is to be waited for.
    pub(super) fn wanted(&self) -> Option<Replicas> {
        self.0.as_ref().map(|worst| worst.replicas)
    }

    pub(super) fn count(&self, acks: Option<Acks>) {
        let (Some(worst), Some(acks)) = (&self.0, acks) else {
            return;
        };
        let mut least = worst.least.lock();
        let is_less = |known: &Acks| {
            (acks.are_enough(), acks.acknowledged) < (known.are_enough(), known.acknowledged)
        };
        if least.as_ref().is_none_or(is_less) {
            *least = Some(acks);
        }
    }

    /// How many replicas have acknowledged everything: 0 if none was asked for. An error if they
    /// are too few.
    pub fn acknowledged(&self) -> Result<u32, CallError> {
        let least = self.0.as_ref().and_then(|worst| worst.least.lock().clone());
        match least {
            None => Ok(0),
            Some(acks) if acks.are_enough() => Ok(acks.acknowledged),
            Some(acks) => Err(CallError::NotReplicated {
                acknowledged: acks.acknowledged,
                required: acks.required,
                problem: acks.problem,
            }),
        }
    }

    /// How many replicas have acknowledged everything, be it enough or not; none if nothing was
    /// waited for.
    pub fn achieved(&self) -> Option<u32> {
        let least = self.0.as_ref()?.least.lock();
        least.as_ref().map(|acks| acks.acknowledged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acks(acknowledged: u32, required: u32) -> Acks {
        Acks {
            acknowledged,
            required,
            problem: None,
        }
    }

    #[test]
    fn the_call_that_fared_worst_counts() {
        let replicas = Replicas {
            at_least: 1,
            all: false,
        };
        let tally = ReplicationStatus::of(Some(replicas));
        assert_eq!(tally.acknowledged(), Ok(0));
        tally.count(Some(acks(3, 1)));
        tally.count(Some(acks(2, 1)));
        tally.count(None);
        assert_eq!(tally.acknowledged(), Ok(2));
        tally.count(Some(acks(2, 3)));
        tally.count(Some(acks(2, 1)));
        assert!(matches!(
            tally.acknowledged(),
            Err(CallError::NotReplicated {
                acknowledged: 2,
                required: 3,
                ..
            })
        ));
    }

    #[test]
    fn nothing_counts_if_nothing_was_asked_for() {
        let tally = ReplicationStatus::of(None);
        tally.count(Some(acks(0, 1)));
        assert_eq!(tally.acknowledged(), Ok(0));
    }
}
