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

/// No two owners at once.
pub(super) fn exclusion(intervals: &[Interval]) -> Vec<Violation> {
    let mut sorted: Vec<Interval> = intervals.to_vec();
    sorted.sort_by_key(|interval| (interval.name, interval.from, interval.until));
    let mut violations = Vec::new();
    let mut last: Option<Interval> = None;
    for interval in sorted.into_iter().filter(|i| i.from < i.until) {
        if let Some(before) = last.filter(|before| before.name == interval.name) {
            if before.until > interval.from && before.holder != interval.holder {
                let Interval { name, from, .. } = interval;
                violations.push(violation(
                    from,
                    format!(
                        "exclusion: {} relies on lock {name} until {}, {} from {from}",
                        before.holder, before.until, interval.holder
                    ),
                ));
            }
            if before.until > interval.until {
                continue;
            }
        }
        last = Some(interval);
    }
    violations
}
