//! How long no user of a kind came to anything.

use std::{collections::BTreeMap, time::Duration};

use crate::{history::At, line::Line, world::Kind};

/// How many kinds the users of a store use.
pub(crate) fn count(kind: Kind) -> usize {
    if kind == Kind::Quorum { 2 } else { 6 }
}

/// The longest time without a success of each kind that ever had one, between two moments.
pub(crate) fn idle<'a>(lines: &'a [Line], [from, until]: [At; 2]) -> BTreeMap<&'a str, Duration> {
    // Of each, its last success and the longest time.
    let mut seen: BTreeMap<&'a str, (At, Duration)> = BTreeMap::new();
    for line in lines {
        if matches!(&*line.what, "granted" | "counted" | "opened") {
            let at = Duration::from_micros(line.at_us).clamp(from, until);
            let (last, longest) = seen.entry(object(line)).or_insert((from, Duration::ZERO));
            *longest = (*longest).max(at.saturating_sub(*last));
            *last = at;
        }
    }
    let idle = seen.into_iter().map(|(object, (last, longest))| {
        let end = until.saturating_sub(last);
        (object, longest.max(end))
    });
    idle.collect()
}

/// What a line is about. All latches are one.
fn object(line: &Line) -> &str {
    if line.kind == "latch" {
        "kind-latch"
    } else {
        &line.name
    }
}

#[test]
fn the_time_without_a_success_is_counted_for_each_kind() {
    let line = |at: u64, kind: &str, name: &str, what: &str| Line {
        at_us: at * 1_000_000,
        kind: kind.to_owned(),
        name: name.to_owned(),
        what: what.to_owned(),
        ..Line::default()
    };
    let lines = [
        line(1, "lock", "kind-lock", "granted"),
        line(2, "latch", "kind-latch-1", "opened"),
        line(4, "lock", "kind-lock", "failed"),
        line(5, "latch", "kind-latch-2", "counted"),
        line(8, "lock", "kind-lock", "asked"),
        line(9, "latch", "kind-latch-2", "opened"),
    ];
    let idle = idle(&lines, [3, 10].map(Duration::from_secs));
    let seconds = |object: &str| idle[object].as_secs();
    assert_eq!(
        (idle.len(), seconds("kind-lock"), seconds("kind-latch")),
        (2, 7, 4)
    );
}
