//! Calls about many names, which may be in different parts of the store: one script for each part,
//! all at once, and each part answers for itself.

use std::collections::BTreeMap;

use futures::future::join_all;
use tokio::time::Instant;

use crate::{host::Partition, script::CallError};

/// What a call about many came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// One for each, in order; none where there is no answer.
    pub outcomes: Vec<Option<T>>,
    /// What the clocks of the parts that answered have shown.
    pub clocks: Vec<StoreClock>,
    /// Why there are outcomes missing, if there are.
    pub error: Option<CallError>,
}

/// What a store's clock has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreClock {
    /// The part of the store whose clock it is.
    pub partition: Partition,
    /// Microseconds since 1970, when the script ran.
    pub micros: i64,
    /// When the answer came.
    pub answered_at: Instant,
}

/// One script's answer: the store's clock, and one outcome for each item.
pub(crate) type Answer<T> = Result<(i64, Vec<T>), CallError>;

/// The places in a batch of what belongs together.
pub(crate) fn grouped<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, Vec<usize>> {
    let mut groups = BTreeMap::<K, Vec<usize>>::new();
    for (at, key) in keys.enumerate() {
        groups.entry(key).or_default().push(at);
    }
    groups
}

// === impl Batch ===

impl<T> Batch<T> {
    /// Makes the calls at once, each for the items at its places.
    pub(crate) async fn gather<F>(len: usize, calls: impl Iterator<Item = F>) -> Self
    where
        F: Future<Output = (Partition, Vec<(Vec<usize>, Answer<T>, Instant)>)>,
    {
        let mut batch = Self {
            outcomes: (0..len).map(|_| None).collect(),
            clocks: Vec::new(),
            error: None,
        };
        for (partition, answers) in join_all(calls).await {
            for (places, answer, answered_at) in answers {
                match answer {
                    Ok((micros, outcomes)) => {
                        batch.clocks.push(StoreClock {
                            partition,
                            micros,
                            answered_at,
                        });
                        for (at, outcome) in places.into_iter().zip(outcomes) {
                            batch.outcomes[at] = Some(outcome);
                        }
                    }
                    Err(error) => batch.error = Some(error),
                }
            }
        }
        batch
    }

    /// No outcome for any of them, and why.
    pub fn failed(len: usize, error: CallError) -> Self {
        Self {
            outcomes: (0..len).map(|_| None).collect(),
            clocks: Vec::new(),
            error: Some(error),
        }
    }

    /// The same with other outcomes.
    pub fn map<U>(self, change: impl Fn(T) -> U) -> Batch<U> {
        let outcomes = self.outcomes.into_iter();
        Batch {
            outcomes: outcomes.map(|outcome| outcome.map(&change)).collect(),
            clocks: self.clocks,
            error: self.error,
        }
    }

    /// All outcomes; an error if one is missing.
    pub fn complete(self) -> Result<Vec<T>, CallError> {
        let missing = || CallError::OutcomeUnknown("an outcome is missing".to_owned());
        match self.error {
            Some(error) => Err(error),
            None => self
                .outcomes
                .into_iter()
                .collect::<Option<_>>()
                .ok_or_else(missing),
        }
    }
}
