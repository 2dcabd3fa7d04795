//! The rules that every history must keep, whatever broke meanwhile:
//!
//! - **exclusion**: the times in which different owners may rely on a lock do not overlap, but for
//!   those of readers ([`intervals`]);
//! - **truth**: who may rely on a lock has it in the store ([`truth`]);
//! - **tokens** are unique and grow, and readers have that of the last writer ([`tokens`]);
//! - **counts** of holds are exact where nothing is in doubt ([`holds`]);
//! - **orphans**: a hold that nobody was told of is soon given back ([`orphans`]);
//! - **losses** are told once, in time, and for good ([`holds`]);
//! - **answers**: each operation ends with one, in time ([`waits`]);
//! - **wake-ups**: a lock that can be had and is wanted is granted soon ([`waits::wake_ups`]);
//! - **refusals**: a lock is refused only if something keeps the caller from it, and its owner is
//!   told that it does not hold it only if it may have lost it ([`waits::refusals`]);
//! - **failures**: what failed, or has an unknown outcome, has a reason ([`waits::failures`]);
//! - **order**: a fair lock is granted to those who came first ([`waits::order`]);
//! - **writers** that wait do not starve ([`waits::writers`]);
//! - **upgrades**: a reader that wants to write is told that it would wait for itself
//!   ([`waits::upgrades`]).

mod account;
mod holds;
mod intervals;
mod orphans;
mod tests;
mod tokens;
mod truth;
mod waits;

use super::{
    history::{Event, Millis, What},
    plan::Plan,
};

/// What the rules need to know of the settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// A call and its answer, in good times.
    pub(crate) round_trip: Millis,
    /// The longest that a call can take.
    pub(crate) call_timeout: Millis,
    pub(crate) poll_interval: Millis,
    pub(crate) lease_max: Millis,
    /// How long a waiter of a fair lock keeps its place when its coordinator says nothing.
    pub(crate) patience: Millis,
    /// How long a writer that waits holds readers back.
    pub(crate) hold_back: Millis,
    /// Whether a change that a replica does not know of has failed.
    pub(crate) replicas: bool,
}

/// A rule that was broken, and when that shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) at: Millis,
    pub(crate) rule: String,
}

/// For everything that takes no time but happens one after the other.
const MARGIN: Millis = 30;

/// The longest pause before an undo is tried again.
const RETRY_MAX: Millis = 1000;

/// All rules.
pub(crate) fn check(events: &[Event], bounds: &Bounds) -> Vec<Violation> {
    let truth = truth::Truth::of(events);
    let holds = holds::follow(events, bounds);
    let mut violations: Vec<Violation> = events
        .iter()
        .filter_map(|event| match &event.what {
            What::Broke(rule) => Some(violation(event.at, rule.clone())),
            _ => None,
        })
        .collect();
    violations.extend(holds.violations.iter().cloned());
    violations.extend(intervals::exclusion(&holds.intervals));
    violations.extend(truth.contradictions(&holds.intervals));
    violations.extend(tokens::check(events));
    violations.extend(orphans::check(events, &truth, &holds.intervals, bounds));
    let waits = waits::Waits::of(events, bounds);
    violations.extend(waits.answers());
    violations.extend(waits::wake_ups::check(&waits, &truth));
    violations.extend(waits::order::check(&waits));
    violations.extend(waits::failures::check(&waits, &truth));
    violations.extend(waits::refusals::check(&waits, &truth));
    violations.extend(waits::refusals::denials(&waits, &truth, &holds.denials));
    violations.extend(waits::writers::check(&waits, &truth));
    violations.extend(waits::upgrades::check(&waits, &truth));
    violations.sort_by_key(|violation| violation.at);
    violations
}

fn violation(at: Millis, rule: impl Into<String>) -> Violation {
    Violation {
        at,
        rule: rule.into(),
    }
}

// === impl Bounds ===

impl Bounds {
    pub(crate) fn of(plan: &Plan) -> Self {
        let millis = |of: std::time::Duration| u64::try_from(of.as_millis()).unwrap_or(u64::MAX);
        Self {
            round_trip: 2 * millis(plan.latency),
            call_timeout: millis(plan.call_timeout),
            poll_interval: millis(plan.poll_interval),
            lease_max: millis(plan.lease_max()),
            patience: millis(plan.patience),
            hold_back: millis(plan.hold_back),
            replicas: plan.replica_acks().is_some(),
        }
    }

    /// After a time of failures, when everything that was left in doubt has been cleared up.
    fn settled(&self) -> Millis {
        2 * self.call_timeout + 2 * RETRY_MAX + self.round_trip + MARGIN
    }
}
