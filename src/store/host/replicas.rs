//! How many replicas must have a change, and how many acknowledged it.

use std::sync::Arc;

use super::Value;

/// How many replicas must have a change before it counts. At least one is always asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replicas {
    /// The least number.
    pub at_least: u32,
    /// All that are connected, if those are more.
    pub all: bool,
}

/// What is to be waited for after a script.
#[derive(Clone, Copy, Debug)]
pub struct Replication {
    /// How many replicas.
    pub replicas: Replicas,
    /// Whether the script has done something that is worth waiting for.
    pub wanted_if: fn(&Value) -> bool,
}

/// How many replicas have said that they have a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acks {
    /// Replicas that have it.
    pub acknowledged: u32,
    /// Replicas that were needed.
    pub required: u32,
    /// Why it could not be found out, if so.
    pub problem: Option<Arc<str>>,
}

// === impl Replicas ===

impl Replicas {
    /// What satisfies both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            at_least: self.at_least.max(other.at_least),
            all: self.all || other.all,
        }
    }

    /// How many that is of the connected ones.
    pub fn required(self, connected: u32) -> u32 {
        let all = if self.all { connected } else { 0 };
        self.at_least.max(all).max(1)
    }
}

// === impl Acks ===

impl Acks {
    /// No acknowledgement, and why.
    pub fn none(replicas: Replicas, problem: impl Into<Arc<str>>) -> Self {
        Self {
            acknowledged: 0,
            required: replicas.required(0),
            problem: Some(problem.into()),
        }
    }

    /// Whether they are enough.
    pub fn are_enough(&self) -> bool {
        self.acknowledged >= self.required
    }
}
