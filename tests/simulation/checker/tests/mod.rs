//! The checker itself: histories that keep the rules, and such that break each of them.

mod modes;
mod refusals;

use super::{Bounds, check};
use crate::history::{Event, Holder, Kind, Millis, Op, Reach, Seen, Share, Told, What};

const A: Holder = holder(1);
const B: Holder = holder(2);
const FOREIGN: Holder = Holder::sessionless(7);
const BOUNDS: Bounds = Bounds {
    round_trip: 2,
    call_timeout: 200,
    poll_interval: 1000,
    lease_max: 3000,
    patience: 900,
    hold_back: 200,
    replicas: false,
};
const WAIT: Kind = Kind::Acquire(None);

const fn holder(session: u32) -> Holder {
    Holder::in_session(session, 0)
}

fn ask(op: Op, holder: Holder, kind: Kind) -> What {
    What::Invoked {
        op,
        holder,
        name: 0,
        node: 0,
        kind,
        repeats: None,
    }
}

fn seen(token: u64, count: u32, safe_until: Millis) -> Seen {
    Seen {
        token,
        count,
        safe_until,
        watched: true,
    }
}

fn granted(op: Op, token: u64, count: u32) -> What {
    What::Told(op, Told::Granted(seen(token, count, 2900)))
}

fn fixed(op: Op, token: u64, safe_until: Millis) -> What {
    let seen = Seen {
        watched: false,
        ..seen(token, 1, safe_until)
    };
    What::Told(op, Told::Granted(seen))
}

fn released(op: Op, left: u32) -> What {
    What::Told(op, Told::Released(left))
}

fn share(holder: Holder, count: i64) -> Share {
    Share {
        holder,
        count,
        until: Some(100_000),
    }
}

fn stored(shares: &[Share], token: u64, by: &'static str) -> What {
    What::Stored {
        name: 0,
        shares: shares.to_vec(),
        token,
        queue: Vec::new(),
        by,
    }
}

fn held(by: Holder, count: i64, token: u64) -> What {
    stored(&[share(by, count)], token, "lock_acquire")
}

fn free(by: &'static str) -> What {
    stored(&[], 0, by)
}

/// Two sessions on a coordinator that nothing happens to, and what is wrong with what they do.
fn rules_broken(story: Vec<(Millis, What)>) -> Vec<String> {
    let mut events = vec![
        (0, What::Reach(0, Reach::Calm)),
        (0, What::Attached(1, 0)),
        (0, What::Attached(2, 0)),
    ];
    events.extend(story);
    let events: Vec<Event> = events
        .into_iter()
        .map(|(at, what)| Event { at, what })
        .collect();
    let violations = check(&events, &BOUNDS);
    let kind = |rule: &str| rule.split(':').next().unwrap().to_owned();
    let mut rules: Vec<_> = violations.iter().map(|broken| kind(&broken.rule)).collect();
    rules.dedup();
    rules
}

/// A gets the lock with token 100.
fn a_holds() -> Vec<(Millis, What)> {
    vec![
        (10, ask(1, A, WAIT)),
        (11, held(A, 1, 100)),
        (12, granted(1, 100, 1)),
    ]
}

/// A gives it back.
fn a_releases(at: Millis) -> Vec<(Millis, What)> {
    vec![
        (at, ask(90, A, Kind::Release)),
        (at + 1, free("lock_release")),
        (at + 2, released(90, 0)),
    ]
}

/// B asks, and gets it at a moment with a token.
fn b_holds(asked: Millis, told: Millis, token: u64) -> Vec<(Millis, What)> {
    vec![
        (asked, ask(2, B, WAIT)),
        (told, held(B, 1, token)),
        (told, granted(2, token, 1)),
        (told + 1, ask(91, B, Kind::Release)),
        (told + 2, free("lock_release")),
        (told + 3, released(91, 0)),
    ]
}

/// In order of time; what is told in the same instant stays as it is.
fn story(parts: impl IntoIterator<Item = Vec<(Millis, What)>>) -> Vec<(Millis, What)> {
    let mut story: Vec<_> = parts.into_iter().flatten().collect();
    story.sort_by_key(|(at, _)| *at);
    story
}

fn expect(broken: &[&str], parts: impl IntoIterator<Item = Vec<(Millis, What)>>) {
    assert_eq!(rules_broken(story(parts)), broken);
}

#[test]
fn one_after_the_other_is_right() {
    expect(&[], [a_holds(), a_releases(30), b_holds(20, 33, 200)]);
}

#[test]
fn two_at_once_is_wrong() {
    expect(
        &["exclusion", "truth"],
        [
            a_holds(),
            b_holds(15, 20, 200),
            vec![(60, What::Closing(1))],
        ],
    );
}

#[test]
fn a_holder_outside_counts() {
    let foreign = vec![
        (20, What::Foreign(FOREIGN, 0, Some(40))),
        (25, What::Foreign(FOREIGN, 0, None)),
    ];
    expect(
        &["exclusion", "truth"],
        [a_holds(), foreign, a_releases(30)],
    );
}

#[test]
fn who_relies_on_a_lock_must_have_it() {
    let stolen = vec![(20, free("lock_release"))];
    expect(&["truth"], [a_holds(), stolen, a_releases(30)]);
}

#[test]
fn nobody_relies_on_a_lease_that_is_over() {
    let short = vec![
        (10, ask(1, A, WAIT)),
        (11, held(A, 1, 100)),
        (12, fixed(1, 100, 50)),
        (55, free("lock_undo")),
    ];
    expect(&[], [short.clone(), b_holds(52, 56, 200)]);
    expect(&["exclusion", "truth"], [short, b_holds(30, 45, 200)]);
}

#[test]
fn a_broken_stream_leaves_what_was_known_to_be_safe() {
    let broken = vec![(20, What::Broken(1, true)), (2950, free("lock_undo"))];
    expect(&[], [a_holds(), broken.clone(), b_holds(2940, 2951, 200)]);
    expect(
        &["exclusion", "truth"],
        [a_holds(), broken, b_holds(30, 100, 200)],
    );
}

#[test]
fn tokens_are_unique_and_grow() {
    let smaller = [a_holds(), a_releases(30), b_holds(40, 41, 50)];
    expect(&["token"], smaller);
    let same = [a_holds(), a_releases(30), b_holds(20, 33, 100)];
    expect(&["token"], same);
}

#[test]
fn a_token_is_new_although_nobody_was_told_of_it() {
    for by in ["multi_acquire", "lock_hand_on", "read_hand_on"] {
        let handed_on = |token| {
            let taken = stored(&[share(B, 1)], token, by);
            [
                a_holds(),
                a_releases(30),
                vec![(30, taken), (32, free("lock_undo"))],
            ]
        };
        let has = |token| rules_broken(story(handed_on(token))).contains(&"token".to_owned());
        assert_eq!([101, 100].map(has), [false, true], "{by}");
    }
}

#[test]
fn holds_are_counted() {
    let again = |count| {
        vec![
            (14, ask(3, A, Kind::Try)),
            (15, held(A, 2, 100)),
            (16, granted(3, 100, count)),
            (20, ask(4, A, Kind::Release)),
            (21, held(A, 1, 100)),
            (22, released(4, 1)),
        ]
    };
    expect(&[], [a_holds(), again(2), a_releases(30)]);
    expect(&["count"], [a_holds(), again(3), a_releases(30)]);
    let mut too_few = a_releases(30);
    too_few[2].1 = released(90, 1);
    expect(&["count"], [a_holds(), too_few]);
}

#[test]
fn what_was_in_doubt_is_not_compared() {
    let doubt = vec![
        (13, What::Reach(0, Reach::Rough)),
        (14, ask(3, A, Kind::Try)),
        (15, held(A, 2, 100)),
        (16, What::Told(3, Told::Unknown)),
        (17, What::Reach(0, Reach::Calm)),
        (18, ask(4, A, Kind::Try)),
        (20, granted(4, 100, 2)),
        (25, What::Closing(1)),
        (26, free("lock_undo")),
    ];
    expect(&[], [a_holds(), doubt]);
}

#[test]
fn a_loss_is_told_once_and_for_good() {
    let lost = |at| (at, What::Lost(A, 0, 100));
    let gone = vec![(13, What::Forced(0)), (13, free("by hand"))];
    expect(&[], [a_holds(), gone.clone(), vec![lost(900)]]);
    expect(
        &["lost"],
        [a_holds(), gone.clone(), vec![lost(900), lost(950)]],
    );
    let renewed = vec![
        lost(900),
        (910, ask(3, A, Kind::Renew)),
        (912, What::Told(3, Told::Renewed(seen(100, 1, 4000)))),
    ];
    expect(&["lost"], [a_holds(), gone.clone(), renewed]);
    let silence = vec![(20_000, What::Note("the end".to_owned()))];
    expect(&["lost"], [a_holds(), gone, silence]);
}

#[test]
fn every_operation_has_one_answer_in_time() {
    let unanswered = vec![(40, ask(5, B, Kind::Try))];
    expect(&["answers"], [a_holds(), a_releases(30), unanswered]);
    let twice = vec![(33, released(90, 0))];
    expect(&["answers"], [a_holds(), a_releases(30), twice]);
    let late = vec![
        (40, ask(5, B, Kind::Acquire(Some(100)))),
        (5000, What::Told(5, Told::TimedOut)),
    ];
    expect(&["answers"], [late, vec![(30, held(FOREIGN, 1, 1))]]);
    let left = vec![(40, ask(5, B, WAIT)), (45, What::Dropped(5))];
    expect(&[], [a_holds(), a_releases(30), left]);
}

#[test]
fn a_free_lock_that_is_waited_for_is_granted_soon() {
    expect(
        &["wake-up"],
        [a_holds(), a_releases(30), b_holds(20, 500, 200)],
    );
    let rough = vec![
        (25, What::Reach(0, Reach::Rough)),
        (480, What::Reach(0, Reach::Calm)),
    ];
    expect(
        &[],
        [a_holds(), a_releases(30), rough, b_holds(20, 500, 200)],
    );
    let deaf = vec![(25, What::Reach(0, Reach::Deaf))];
    expect(
        &[],
        [a_holds(), a_releases(30), deaf, b_holds(20, 1000, 200)],
    );
    let deaf = vec![(25, What::Reach(0, Reach::Deaf))];
    expect(
        &["wake-up"],
        [a_holds(), a_releases(30), deaf, b_holds(20, 1500, 200)],
    );
}

#[test]
fn a_hold_that_nobody_knows_of_is_soon_given_back() {
    let left = |undone| {
        vec![
            (10, ask(1, A, WAIT)),
            (11, held(A, 1, 100)),
            (12, What::Dropped(1)),
            (undone, free("lock_undo")),
        ]
    };
    expect(&[], [left(14)]);
    expect(&["orphan"], [left(400)]);
}

#[test]
fn a_repeat_gets_the_first_answer() {
    let repeat = |answer| {
        let again = What::Invoked {
            op: 3,
            holder: A,
            name: 0,
            node: 0,
            kind: WAIT,
            repeats: Some(1),
        };
        vec![(14, again), (16, answer)]
    };
    expect(&[], [a_holds(), repeat(granted(3, 100, 1)), a_releases(30)]);
    let over = What::Told(3, Told::Refused("request over"));
    expect(&["repeat"], [a_holds(), repeat(over), a_releases(30)]);
}

#[test]
fn what_the_run_found_itself_is_reported() {
    expect(
        &["leftovers"],
        [vec![(10, What::Broke("leftovers: a key".to_owned()))]],
    );
}
