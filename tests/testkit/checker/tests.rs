//! The checker finds what is wrong in histories that were made wrong.

#![cfg(test)]

use std::time::Duration;

use super::{Bounds, Findings, check};
use crate::{
    heartbeat::Lateness,
    history::{Event, What},
};

const BOUNDS: Bounds = Bounds {
    lease: Duration::from_secs(4),
    busy: 1,
    fault: Duration::from_secs(5),
    healed: Duration::from_secs(10),
    stopped: Duration::from_millis(8500),
    end: Duration::from_secs(60),
    lateness: Lateness::NONE,
};

/// A history of lock 0 from lines of milliseconds, attempt, and event.
fn checked(lines: &[(u64, u64, What)]) -> Findings {
    checked_by(&BOUNDS, lines)
}

fn checked_by(bounds: &Bounds, lines: &[(u64, u64, What)]) -> Findings {
    let events = lines.iter().map(|&(at, attempt, what)| Event {
        at: Duration::from_millis(at),
        client: 0,
        attempt,
        name: 0,
        what,
    });
    check(&events.collect::<Vec<_>>(), bounds)
}

fn granted(token: u64) -> What {
    What::Granted { token }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_good_history_has_no_faults() {
    let found = checked(&[
        (0, 1, What::Asked),
        (0, 2, What::Asked),
        (10, 1, granted(5)),
        (20, 1, What::ReleaseSent),
        (21, 2, granted(6)),
        (22, 1, What::Released),
        (30, 2, What::ReleaseSent),
        (31, 2, What::Released),
    ]);
    let expected = Findings {
        grants: 2,
        // None came after the fault.
        outage: Duration::from_millis(3500),
        back: Duration::from_millis(3500),
        outage_of_one: Duration::from_millis(3500),
        ..Findings::default()
    };
    assert_eq!(found, expected);
}

#[test]
fn two_holders_at_once_are_found() {
    let found = checked(&[
        (0, 1, What::Asked),
        (0, 2, What::Asked),
        (10, 1, granted(5)),
        (20, 2, granted(6)),
        (300, 1, What::ReleaseSent),
        (300, 2, What::ReleaseSent),
        (301, 1, What::Released),
        (301, 2, What::Released),
    ]);
    assert_eq!(found.violations.len(), 1, "{found:#?}");
    // And the first was told that it gave back what it held.
    assert_eq!((found.unaware.len(), found.silent.len()), (1, 0));
}

#[test]
fn a_notice_that_was_under_way_is_no_violation_and_a_late_one_is() {
    let lost_at = |at: u64| {
        checked(&[
            (0, 1, What::Asked),
            (0, 2, What::Asked),
            (10, 1, granted(5)),
            (1000, 2, granted(6)),
            (at, 1, What::Lost),
            (5000, 2, What::ReleaseSent),
        ])
    };
    let prompt = lost_at(1100);
    assert_eq!((prompt.violations.len(), prompt.late_notices), (0, 1));
    let late = lost_at(1200);
    assert_eq!((late.violations.len(), late.late_notices), (1, 0));
    assert_eq!(late.silent.len() + prompt.silent.len(), 0);
    assert_eq!(late.unaware.len(), 0);
    // Longer than a lease and a second after the store was back at 10 s is as good as never.
    assert_eq!(lost_at(15_500).silent.len(), 1);
}

#[test]
fn a_risk_that_was_announced_ends_what_can_be_relied_on() {
    let risk = |left: Duration, recovered: Option<u64>| {
        let mut lines = vec![
            (0, 1, What::Asked),
            (10, 1, granted(5)),
            (100, 1, What::AtRisk(left)),
        ];
        lines.extend(recovered.map(|at| (at, 1, What::Recovered)));
        lines.extend([
            (2000, 2, What::Asked),
            (2001, 2, granted(6)),
            (3000, 2, What::ReleaseSent),
            (3500, 1, What::Lost),
        ]);
        checked(&lines).violations.len()
    };
    assert_eq!(risk(SECOND, None), 0);
    assert_eq!(risk(2 * SECOND, None), 1);
    assert_eq!(risk(SECOND, Some(500)), 1);
    // It was over, and then it was not.
    assert_eq!(risk(SECOND, Some(1500)), 1);
}

#[test]
fn a_broken_stream_is_nothing_to_rely_on_until_it_is_resumed() {
    let resumed = |left: Duration, at: Option<u64>| {
        let mut lines = vec![
            (0, 1, What::Asked),
            (10, 1, granted(5)),
            (100, 1, What::Broke(left)),
        ];
        lines.extend(at.map(|at| (at, 1, What::Resumed)));
        lines.extend([
            (2000, 2, What::Asked),
            (2001, 2, granted(6)),
            (3000, 2, What::ReleaseSent),
        ]);
        checked(&lines).violations.len()
    };
    assert_eq!(resumed(Duration::ZERO, None), 0);
    assert_eq!(resumed(Duration::ZERO, Some(1000)), 1);
    // Unless the holder says for how long it relies on the grant.
    assert_eq!(resumed(SECOND, None), 0);
    assert_eq!(resumed(2 * SECOND, None), 1);
}

#[test]
fn tokens_that_repeat_or_shrink_are_found() {
    let second = |asked: u64, token: u64| {
        let found = checked(&[
            (0, 1, What::Asked),
            (10, 1, granted(5)),
            (20, 1, What::ReleaseSent),
            (asked, 2, What::Asked),
            (30, 2, granted(token)),
            (40, 2, What::ReleaseSent),
        ]);
        (found.tokens.len(), found.twins.len())
    };
    assert_eq!(second(25, 6), (0, 0));
    assert_eq!(second(25, 5), (0, 1));
    assert_eq!(second(25, 4), (1, 0));
    // Asked before the first was told: the order of the grants is not known.
    assert_eq!(second(5, 4), (0, 0));
    assert_eq!(second(5, 5), (0, 1));
}

#[test]
fn a_waiter_of_a_free_lock_is_stuck_and_one_of_a_held_lock_is_not() {
    let next = |at: u64| {
        checked(&[
            (11_000, 1, What::Asked),
            (11_000, 2, What::Asked),
            (11_010, 1, granted(5)),
            (30_000, 1, What::ReleaseSent),
            (30_001, 1, What::Released),
            (at, 2, granted(6)),
            (at + 1, 2, What::ReleaseSent),
            (at + 2, 2, What::Released),
        ])
        .stuck
        .len()
    };
    assert_eq!(next(34_900), 0);
    assert_eq!(next(35_100), 1);
    let forgotten = checked(&[(11_000, 1, What::Asked)]);
    assert_eq!(forgotten.stuck.len(), 1);
    // The store was away until 10 s.
    let during = checked(&[(1000, 1, What::Asked), (14_000, 1, What::Failed)]);
    assert_eq!((during.stuck.len(), during.failed), (0, 1));
}

#[test]
fn what_the_machine_takes_is_not_held_against_anybody() {
    let millis = Duration::from_millis;
    let found = |most: u64, total: u64| {
        let bounds = Bounds {
            lateness: Lateness {
                most: millis(most),
                total: millis(total),
            },
            ..BOUNDS
        };
        let found = checked_by(
            &bounds,
            &[
                (0, 1, What::Asked),
                (0, 2, What::Asked),
                (10, 1, granted(5)),
                (1000, 2, granted(6)),
                (1200, 1, What::Lost),
                (2000, 2, What::ReleaseSent),
                (2001, 2, What::Released),
                (11_000, 3, What::Asked),
                (16_100, 3, granted(7)),
                (16_101, 3, What::ReleaseSent),
                (16_102, 3, What::Released),
            ],
        );
        (found.violations.len(), found.stuck.len())
    };
    assert_eq!(found(0, 0), (1, 1));
    assert_eq!(found(60, 60), (0, 1));
    assert_eq!(found(60, 120), (0, 0));
}

#[test]
fn a_refused_release_has_told_the_holder() {
    let end = |what: What| {
        checked(&[
            (0, 1, What::Asked),
            (0, 2, What::Asked),
            (10, 1, granted(5)),
            (15, 2, granted(6)),
            (500, 1, What::ReleaseSent),
            (510, 1, what),
            (520, 2, What::ReleaseSent),
        ])
        .unaware
        .len()
    };
    assert_eq!((end(What::Refused), end(What::Released)), (0, 1));
}

#[test]
fn a_release_of_what_is_held_is_not_refused() {
    let refused = |before: &[(u64, What)], after: &[(u64, What)], at: u64| {
        let mut lines = vec![(0, 1, What::Asked), (10, 1, granted(5))];
        lines.extend(before.iter().map(|&(at, what)| (at, 1, what)));
        lines.push((500, 1, What::ReleaseSent));
        lines.extend(after.iter().map(|&(at, what)| (at, 1, what)));
        lines.push((at, 1, What::Refused));
        checked(&lines).refused.len()
    };
    assert_eq!(refused(&[], &[], 510), 1);
    let back = [(100, What::AtRisk(SECOND)), (200, What::Recovered)];
    assert_eq!(refused(&back, &[], 510), 1);
    // It may have ended by then.
    assert_eq!(refused(&[], &[], 3000), 0);
    assert_eq!(refused(&back[..1], &[], 510), 0);
    assert_eq!(refused(&[(100, What::Lost)], &[], 510), 0);
    assert_eq!(refused(&[], &[(505, What::Lost)], 510), 0);
    // Another coordinator may have done it.
    let broke = [(505, What::Broke(Duration::ZERO)), (507, What::Resumed)];
    assert_eq!(refused(&[], &broke, 510), 0);
}

#[test]
fn what_was_being_given_back_is_not_lost() {
    let lost = |releases: u64, loses: u64| {
        let mut lines = [
            (0, 1, What::Asked),
            (10, 1, granted(5)),
            (releases, 1, What::ReleaseSent),
            (loses, 1, What::Lost),
        ];
        lines.sort_by_key(|line| line.0);
        checked(&lines).lost
    };
    assert_eq!((lost(20, 30), lost(30, 20)), (0, 1));
}

#[test]
fn the_outage_is_the_longest_time_without_a_grant() {
    let mut lines = Vec::new();
    for (attempt, at) in (0..).zip([4900, 5010, 5020, 8000, 8010, 8020]) {
        lines.push((at - 1, attempt, What::Asked));
        lines.push((at, attempt, granted(attempt + 1)));
        lines.push((at, attempt, What::ReleaseSent));
        lines.push((at, attempt, What::Released));
    }
    let found = checked(&lines);
    assert_eq!(found.outage, Duration::from_millis(2980));
    assert_eq!(found.back, 3 * SECOND);
    assert_eq!(found.outage_of_one, found.outage);
}
