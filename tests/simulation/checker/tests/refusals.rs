//! Answers that something was not done.

use lockkeeper_store::script::Mode;

use super::{A, B, a_holds, ask, expect, fixed, free, held, share, stored};
use crate::history::{Holder, Kind, Millis, Reach, Told, What};

const FAIR_A: Holder = A.with(Mode::Fair);
const FAIR_B: Holder = B.with(Mode::Fair);
const READS_A: Holder = A.with(Mode::Read);
const WRITES_B: Holder = B.with(Mode::Write);

/// An operation from 50 to 60.
fn asked(holder: Holder, kind: Kind, told: Told) -> Vec<(Millis, What)> {
    vec![(50, ask(5, holder, kind)), (60, What::Told(5, told))]
}

/// The lock as it stands from a moment on.
fn looks(at: Millis, holders: &[Holder], queue: &[Holder]) -> (Millis, What) {
    let shares: Vec<_> = holders.iter().map(|of| share(*of, 1)).collect();
    let mut stored = stored(&shares, 100, "foreign lock");
    if let What::Stored { queue: of, .. } = &mut stored {
        *of = queue.to_vec();
    }
    (at, stored)
}

#[test]
fn a_lock_is_refused_only_if_something_keeps_the_caller_from_it() {
    let busy = || asked(B, Kind::Try, Told::Busy);
    expect(&["refusal"], [busy()]);
    expect(
        &["refusal"],
        [busy(), vec![looks(10, &[A], &[]), looks(40, &[], &[])]],
    );
    expect(
        &[],
        [busy(), vec![looks(10, &[A], &[]), looks(50, &[], &[])]],
    );
    expect(
        &[],
        [busy(), vec![looks(55, &[A], &[]), looks(56, &[], &[])]],
    );
    let several = |holders: &[Holder]| {
        [
            asked(B, Kind::TryAll, Told::Busy),
            vec![looks(10, holders, &[])],
        ]
    };
    expect(&["refusal"], several(&[B]));
    expect(&[], several(&[A]));
}

#[test]
fn who_comes_first_is_a_reason() {
    let fair = |queue: &[Holder]| {
        [
            asked(FAIR_B, Kind::Try, Told::Busy),
            vec![looks(10, &[], queue), looks(70, &[], &[])],
        ]
    };
    expect(&["refusal"], fair(&[]));
    expect(&["refusal"], fair(&[FAIR_B]));
    expect(&[], fair(&[FAIR_A, FAIR_B]));
    let read = |until| {
        [
            asked(READS_A, Kind::Try, Told::Busy),
            vec![(10, What::HeldBack(0, until))],
        ]
    };
    expect(&["refusal"], read(40));
    expect(&[], read(50));
    let among = |of| {
        [
            asked(READS_A, Kind::Try, Told::Busy),
            vec![looks(10, &[of], &[])],
        ]
    };
    expect(&["refusal"], among(B.with(Mode::Read)));
    expect(&[], among(WRITES_B));
}

#[test]
fn a_wait_has_its_time() {
    let held = || vec![looks(10, &[A], &[])];
    let timed_out = |wait| asked(B, Kind::Acquire(wait), Told::TimedOut);
    expect(&[], [held(), timed_out(Some(10))]);
    expect(&["refusal"], [held(), timed_out(Some(100))]);
    expect(&["refusal"], [held(), timed_out(None)]);
    let cancelled = asked(B, Kind::Acquire(None), Told::Cancelled);
    expect(&["failure"], [held(), cancelled.clone()]);
    expect(&[], [held(), cancelled, vec![(55, What::Cancelled(5))]]);
}

#[test]
fn an_owner_is_not_denied_what_it_holds() {
    let denied = |kind| {
        let end = vec![(61, What::Closing(1)), (62, free("lock_release"))];
        [a_holds(), asked(A, kind, Told::NotOwner), end]
    };
    expect(&["denial"], denied(Kind::Release));
    expect(&["denial"], denied(Kind::Renew));
    let taken = vec![(55, free("lock_release"))];
    expect(
        &["denial"],
        [a_holds(), asked(A, Kind::Release, Told::NotOwner), taken],
    );
    let forced = vec![(55, What::Forced(0)), (55, free("by hand"))];
    expect(
        &[],
        [a_holds(), asked(A, Kind::Release, Told::NotOwner), forced],
    );
    let over = vec![
        (10, ask(1, A, Kind::Try)),
        (11, held(A, 1, 100)),
        (12, fixed(1, 100, 55)),
        (63, free("lock_undo")),
    ];
    expect(&[], [over, asked(A, Kind::Release, Told::NotOwner)]);
}

#[test]
fn an_owner_is_not_told_of_a_loss_that_is_none() {
    let lost = |more| {
        [
            a_holds(),
            vec![(50, What::Lost(A, 0, 100)), (55, free("lock_undo"))],
            more,
        ]
    };
    expect(&["denial"], lost(Vec::new()));
    expect(&[], lost(vec![(40, What::Reach(0, Reach::Rough))]));
}

#[test]
fn what_was_not_done_has_a_reason() {
    for why in [
        "draining",
        "unavailable",
        "session not found",
        "session detached",
        "session superseded",
        "session ended by force",
        "request over",
    ] {
        expect(&["failure"], [asked(A, Kind::Try, Told::Refused(why))]);
    }
    expect(&["failure"], [asked(A, Kind::Try, Told::Unknown)]);
    expect(&["failure"], [asked(A, Kind::Try, Told::NotOwner)]);
    let down = || vec![(55, What::Reach(0, Reach::Down))];
    let broken = || vec![(55, What::Broken(1, true))];
    expect(
        &[],
        [down(), asked(A, Kind::Try, Told::Refused("draining"))],
    );
    expect(&[], [down(), asked(A, Kind::Try, Told::Unknown)]);
    expect(
        &[],
        [
            broken(),
            asked(A, Kind::Try, Told::Refused("session detached")),
        ],
    );
}

#[test]
fn an_answer_may_come_too_late() {
    let lost = vec![(55, What::Lost(A, 0, 100)), (62, free("lock_undo"))];
    expect(&[], [a_holds(), asked(A, Kind::Try, Told::Unknown), lost]);
    let turn = |until| {
        [
            vec![looks(10, &[B], &[])],
            vec![(40, ask(4, A, Kind::Try)), (50, ask(5, A, Kind::Try))],
            vec![
                (until, What::Told(5, Told::Refused("unavailable"))),
                (until, What::Told(4, Told::Busy)),
            ],
        ]
    };
    expect(&["failure"], turn(240));
    expect(&[], turn(250));
}
