//! Times in which owners may rely on locks.

use super::{Violation, violation};
use crate::history::{Holder, Millis};
use lockkeeper_testkit::checker::overlaps;

/// A time in which an owner may rely on a lock; the end is not part of it.
pub(super) type Interval = lockkeeper_testkit::checker::Interval<Holder, Millis>;

/// No two at once that do not go together: a writer is alone but for its own reads.
pub(super) fn exclusion(intervals: &[Interval]) -> Vec<Violation> {
    let pairs = overlaps(intervals.iter().copied()).into_iter();
    let pairs = pairs.filter(|[before, it]| !before.holder.goes_with(it.holder));
    let violations = pairs.map(|[before, it]| {
        let rule = format!(
            "exclusion: {} relies on lock {} until {}, {} from {}",
            before.holder, it.name, before.until, it.holder, it.from
        );
        violation(it.from, rule)
    });
    violations.collect()
}
