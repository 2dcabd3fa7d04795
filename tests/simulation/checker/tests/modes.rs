//! Fair, read and write locks.

use lockkeeper_store::script::Mode;

use super::{A, B, FOREIGN, WAIT, ask, expect, granted, released, share, stored};
use crate::{
    clients::SELF_DEADLOCK,
    history::{Holder, Kind, Millis, Op, Share, Told, What},
};

const READS_A: Holder = A.with(Mode::Read);
const READS_B: Holder = B.with(Mode::Read);
const WRITES_A: Holder = A.with(Mode::Write);
const WRITES_B: Holder = B.with(Mode::Write);

/// A holder gets the lock at a moment and gives it back at another.
fn held_from(
    op: Op,
    holder: Holder,
    (from, until): (Millis, Millis),
    token: u64,
) -> Vec<(Millis, What)> {
    vec![
        (from - 1, ask(op, holder, WAIT)),
        (from, granted(op, token, 1)),
        (until, ask(op + 50, holder, Kind::Release)),
        (until + 1, released(op + 50, 0)),
    ]
}

fn looks(at: Millis, holders: &[Holder], by: &'static str) -> Vec<(Millis, What)> {
    let shares: Vec<Share> = holders.iter().map(|of| share(*of, 1)).collect();
    let token = if by == "fair_acquire" { 100 + at } else { 100 };
    vec![(at, stored(&shares, token, by))]
}

#[test]
fn readers_may_overlap_and_a_writer_may_read() {
    let readers = [
        held_from(1, READS_A, (10, 30), 100),
        looks(10, &[READS_A], "read_acquire"),
        held_from(2, READS_B, (20, 40), 100),
        looks(20, &[READS_A, READS_B], "read_acquire"),
        looks(31, &[READS_B], "read_release"),
        looks(41, &[], "read_release"),
    ];
    expect(&[], readers);
    let nested = [
        held_from(1, WRITES_A, (10, 30), 100),
        looks(10, &[WRITES_A], "write_acquire"),
        held_from(2, READS_A, (20, 40), 100),
        looks(20, &[WRITES_A, READS_A], "read_acquire"),
        looks(31, &[READS_A], "write_release"),
        looks(41, &[], "read_release"),
    ];
    expect(&[], nested);
    let both = [
        held_from(1, WRITES_A, (10, 30), 100),
        looks(10, &[WRITES_A], "write_acquire"),
        held_from(2, READS_B, (20, 40), 100),
        looks(20, &[WRITES_A, READS_B], "read_acquire"),
        looks(41, &[], "read_release"),
    ];
    expect(&["exclusion"], both);
}

#[test]
fn a_readers_token_is_that_of_the_last_writer() {
    let reader = |token| {
        [
            looks(5, &[], "write_release"),
            held_from(1, READS_A, (10, 30), token),
            looks(10, &[READS_A], "read_acquire"),
            looks(31, &[], "read_release"),
        ]
    };
    expect(&[], reader(100));
    expect(&["token"], reader(101));
}

#[test]
fn a_fair_lock_goes_to_who_came_first() {
    let [first, second] = [A, B].map(|of| of.with(Mode::Fair));
    let story = |next: Op| {
        let holder = [first, second][usize::try_from(next - 1).unwrap()];
        [
            looks(1, &[FOREIGN.with(Mode::Fair)], "fair_acquire"),
            vec![
                (10, ask(1, first, WAIT)),
                (11, What::Waits(first, 0)),
                (20, ask(2, second, WAIT)),
                (21, What::Waits(second, 0)),
            ],
            looks(30, &[], "lock_release"),
            looks(31, &[holder], "fair_acquire"),
            vec![
                (32, granted(next, 100, 1)),
                (33, What::Cancelled(3 - next)),
                (34, What::Told(3 - next, Told::Cancelled)),
                (39, ask(90, holder, Kind::Release)),
                (40, released(90, 0)),
            ],
            looks(40, &[], "lock_release"),
        ]
    };
    expect(&[], story(1));
    expect(&["order"], story(2));
}

#[test]
fn readers_are_held_back_for_a_writer_that_waits() {
    let story = |first: Millis, pause: Millis| {
        let times = (0..20).map(|turn| first + turn * pause);
        let readers = times.flat_map(|at| {
            let turn = Op::try_from(at).unwrap();
            let other = Holder::in_session(2, turn).with(Mode::Read);
            [
                looks(at, &[READS_A, other], "read_acquire"),
                looks(at + 1, &[READS_A], "read_release"),
            ]
        });
        let mut story: Vec<_> = readers.collect();
        story.push(held_from(1, READS_A, (10, 9000), 100));
        story.push(looks(10, &[READS_A], "read_acquire"));
        story.push(vec![
            (20, ask(2, WRITES_B, WAIT)),
            (21, What::Waits(WRITES_B, 0)),
            (9001, What::Cancelled(2)),
            (9001, What::Told(2, Told::Cancelled)),
        ]);
        story.push(looks(9001, &[], "read_release"));
        story
    };
    expect(&[], story(250, 250));
    expect(&["writers"], story(250, 150));
    expect(&["writers"], story(100, 250));
}

#[test]
fn a_reader_that_wants_to_write_is_refused() {
    let story = |answer| {
        [
            held_from(1, READS_A, (10, 60), 100),
            looks(10, &[READS_A], "read_acquire"),
            vec![
                (20, ask(2, WRITES_A, Kind::Try)),
                (22, What::Told(2, answer)),
            ],
            looks(61, &[], "read_release"),
        ]
    };
    expect(&[], story(Told::Refused(SELF_DEADLOCK)));
    expect(&["upgrade"], story(Told::Busy));
}
