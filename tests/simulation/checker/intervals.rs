//! Times in which owners may rely on locks.

use super::{Violation, violation};
use crate::history::{Holder, Millis, Name};

/// A time in which an owner may rely on a lock; the end is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) name: Name,
    pub(super) holder: Holder,
    pub(super) token: u64,
    pub(super) from: Millis,
    pub(super) until: Millis,
}

/// No two at once that do not go together: a writer is alone but for its own reads.
pub(super) fn exclusion(intervals: &[Interval]) -> Vec<Violation> {
    let mut sorted: Vec<Interval> = intervals.to_vec();
    sorted.sort_by_key(|interval| (interval.name, interval.from, interval.until));
    let mut violations = Vec::new();
    let mut current: Vec<Interval> = Vec::new();
    for interval in sorted.into_iter().filter(|i| i.from < i.until) {
        let Interval { name, from, .. } = interval;
        current.retain(|before| before.name == name && before.until > from);
        for before in &current {
            if !before.holder.goes_with(interval.holder) {
                let rule = format!(
                    "exclusion: {} relies on lock {name} until {}, {} from {from}",
                    before.holder, before.until, interval.holder
                );
                violations.push(violation(from, rule));
            }
        }
        current.push(interval);
    }
    violations
}
