//! How the locks really stood in the store, and whether anybody relied on one that it did not have.

use std::collections::BTreeMap;

use super::{Violation, intervals::Interval, violation};
use crate::history::{Event, Holder, Millis, Name, What};

/// The states of all locks, in order of time.
#[derive(Debug, Default)]
pub(super) struct Truth {
    states: BTreeMap<Name, Vec<State>>,
}

/// How a lock stood from one moment to another, which is not part of it.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) from: Millis,
    pub(super) until: Millis,
    pub(super) holders: Vec<(Holder, i64)>,
    /// What brought it about.
    pub(super) by: &'static str,
}

/// What ends a lock that nobody gave back.
const EXPIRY: &str = "expiry";

// === impl Truth ===

impl Truth {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut truth = Self::default();
        let end = events.last().map_or(0, |event| event.at);
        for event in events {
            let What::Stored {
                name,
                holders,
                until,
                by,
                ..
            } = &event.what
            else {
                continue;
            };
            let states = truth.states.entry(*name).or_default();
            if let Some(last) = states.last_mut() {
                last.until = last.until.min(event.at);
            }
            expire(states, event.at);
            states.push(State {
                from: event.at,
                until: until.unwrap_or(Millis::MAX),
                holders: holders.clone(),
                by,
            });
        }
        for states in truth.states.values_mut() {
            expire(states, end);
        }
        truth
    }

    pub(super) fn states(&self, name: Name) -> impl Iterator<Item = &State> {
        self.states.get(&name).into_iter().flatten()
    }

    /// Times at which nobody held a lock, and what began them.
    pub(super) fn free(&self, name: Name) -> impl Iterator<Item = &State> {
        self.states(name).filter(|state| state.holders.is_empty())
    }

    /// Whoever relies on a lock must have it.
    pub(super) fn contradictions(&self, intervals: &[Interval]) -> Vec<Violation> {
        let mut violations = Vec::new();
        for interval in intervals {
            let Interval {
                name,
                holder,
                from,
                until,
                ..
            } = *interval;
            let mut overlapping = self
                .states(name)
                .filter(|state| state.from < until && state.until > from);
            let wrong = overlapping.find(|state| {
                // What changes within one millisecond cannot be told apart.
                let time = state.until.min(until) - state.from.max(from);
                time > 0
                    && !state
                        .holders
                        .iter()
                        .any(|(of, count)| *of == holder && *count > 0)
            });
            if let Some(state) = wrong {
                let at = state.from.max(from);
                let rule = format!(
                    "truth: {holder} relies on lock {name} from {from} to {until}, but the store has {:?} at {at} by {}",
                    state.holders, state.by
                );
                violations.push(violation(at, rule));
            }
        }
        violations
    }
}

/// Adds what follows when a key's time is over before the next event.
fn expire(states: &mut Vec<State>, now: Millis) {
    let Some(last) = states.last() else { return };
    let from = last.until;
    if from < now && !last.holders.is_empty() {
        states.push(State {
            from,
            until: now,
            holders: Vec::new(),
            by: EXPIRY,
        });
    }
}
