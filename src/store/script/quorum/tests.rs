//! Votes and what comes of them, as tables.

use std::time::Duration;

use bytes::Bytes;

use super::{
    acquire::may_hold,
    give_back, inspect, renew,
    votes::{Ballot, Defeat, Elected, Granted, KnownHold, Vote, defeat, elect},
};
use crate::script::{CallError, Holder, Inspected, Mode, Ownership, Released, Renewed};

const LEASE: Duration = Duration::from_secs(30);

/// A vote in a word: `g2@7` granted, two holds, token 7; `r1@7` the same as answer to a repeat;
/// `b9@7` busy for 9 s, counter 7; `-` unavailable; `?` unknown; `w` of another kind; `o` the
/// request is over; `x` refused by the store, perhaps halfway.
fn votes(words: &str) -> Vec<Vote> {
    words.split(' ').map(vote).collect()
}

fn vote(word: &str) -> Vote {
    let numbers = || -> (u32, u64) {
        let (count, token) = word[1..].split_once('@').unwrap();
        (count.parse().unwrap(), token.parse().unwrap())
    };
    match &word[..1] {
        "g" | "r" => {
            let (hold_count, token) = numbers();
            Ok(Ballot::Granted(Granted {
                hold_count,
                token,
                lease: LEASE,
                serial: token,
                repeated: word.starts_with('r'),
            }))
        }
        "b" => {
            let (seconds, counter) = numbers();
            let remaining = Some(Duration::from_secs(seconds.into()));
            Ok(Ballot::Busy { remaining, counter })
        }
        "-" => Err(CallError::Unavailable(String::new())),
        "?" => Err(CallError::OutcomeUnknown(String::new())),
        "w" => Err(CallError::WrongKind),
        "o" => Err(CallError::RequestOver),
        "x" => Err(CallError::Refused(String::new())),
        other => panic!("{other}"),
    }
}

fn known(mode: Mode, known_holds: Option<u32>, serial: Option<u64>) -> KnownHold {
    KnownHold {
        mode,
        known_holds,
        serial,
    }
}

/// Who is counted, holds, and token; none if no owner is elected.
fn won(words: &str, known: KnownHold) -> Option<(Vec<usize>, u32, u64)> {
    let elected = elect(&votes(words), known)?;
    Some((elected.counted, elected.hold_count, elected.token))
}

#[test]
fn a_majority_that_agrees_on_the_holds_is_elected_with_the_largest_token() {
    let new = known(Mode::Exclusive, Some(0), None);
    let again = known(Mode::Write, Some(1), Some(5));
    let unknown = known(Mode::Exclusive, None, None);
    for (words, known, expected) in [
        ("g1@5 g1@7 g1@6", new, Some((vec![0, 1, 2], 1, 7))),
        ("g1@5 - g1@6", new, Some((vec![0, 2], 1, 6))),
        ("g1@5 g1@5 g1@9", new, Some((vec![0, 1, 2], 1, 9))),
        ("r1@5 r1@5 r1@9", new, Some((vec![0, 1], 1, 5))),
        ("g1@5 ? b9@1", new, None),
        // What an attempt that was given up has left there is no hold that the caller knows of.
        ("g2@5 g2@5 g2@5", new, None),
        ("g1@5 g1@5 g1@5", again, None),
        ("g1@1 g1@2 b9@1 b9@1 g1@3", new, Some((vec![0, 1, 4], 1, 3))),
        ("g1@1 g1@2 b9@1 b9@1 ?", new, None),
        // A store that has lost the first hold, or never had it, is not counted.
        ("g2@5 g2@5 g1@9", again, Some((vec![0, 1], 2, 5))),
        ("g2@5 g1@8 g1@9", again, None),
        // One where an unanswered attempt came late has a newer token.
        ("g2@5 g2@5 g2@9", again, Some((vec![0, 1], 2, 5))),
        ("g2@5 g2@4 g2@9", again, Some((vec![0, 1], 2, 5))),
        ("g2@5 g2@5 g2@9", unknown, Some((vec![0, 1], 2, 5))),
        ("g3@5 g2@5 g2@5", unknown, Some((vec![1, 2], 2, 5))),
        (
            "g3@5 g3@5 g2@5 g2@5 g2@5",
            unknown,
            Some((vec![2, 3, 4], 2, 5)),
        ),
        ("g3@5 g2@5 g1@5", unknown, None),
        // A repeat is counted among those that know the request, whatever the caller believes to
        // hold.
        ("r1@5 r1@5 g1@9", new, Some((vec![0, 1], 1, 5))),
        ("r1@5 r1@5 -", again, Some((vec![0, 1], 1, 5))),
        ("r1@5 g1@8 g1@9", new, Some((vec![0, 1, 2], 1, 9))),
        ("w g1@5 g1@6", new, Some((vec![1, 2], 1, 6))),
    ] {
        assert_eq!(won(words, known), expected, "{words} {known:?}");
    }
}

#[test]
fn a_vote_that_may_have_left_a_hold_is_taken_back() {
    let kept = votes("g1@5 b9@7 - ? w o x")
        .iter()
        .map(may_hold)
        .collect::<Vec<_>>();
    assert_eq!(kept, [true, false, false, true, false, false, true]);
}

#[test]
fn readers_agree_on_their_grant_and_get_the_last_writers_token() {
    // The serial is the token here, so these are votes of one grant only where the tokens are the
    // same.
    let again = known(Mode::Read, Some(1), Some(5));
    let expected = Some((vec![0, 1], 2, 5));
    assert_eq!(won("g2@5 g2@5 g2@6", again), expected);
    assert_eq!(won("g2@5 g2@6 g2@6", again), None);
    assert_eq!(won("g1@5 g1@6 g1@7", known(Mode::Read, None, None)), None);
    let tokens = |tokens: &[u64]| {
        let votes = tokens.iter().map(|token| {
            let Ok(Ballot::Granted(granted)) = vote(&format!("g1@{token}")) else {
                panic!("not granted")
            };
            Ok(Ballot::Granted(Granted {
                serial: 1,
                ..granted
            }))
        });
        let mut votes: Vec<Vote> = votes.collect();
        votes.resize_with(5, || Err(CallError::Unavailable(String::new())));
        elect(&votes, known(Mode::Read, Some(0), None)).map(|elected| elected.token)
    };
    // A token of a grant is on three of five; what only fewer show may be of a writer that nobody
    // elected.
    assert_eq!(tokens(&[9, 8, 7, 7, 7]), Some(7));
    assert_eq!(tokens(&[7, 7, 7, 1, 1]), Some(7));
    assert_eq!(tokens(&[7, 1, 7, 1]), Some(7));
    assert_eq!(tokens(&[1, 7, 1]), Some(7));
}

#[test]
fn what_is_told_of_a_grant_is_what_all_who_count_have() {
    let mut votes = votes("g1@5 r1@5 g1@5");
    if let Ok(Ballot::Granted(granted)) = &mut votes[2] {
        granted.lease = Duration::from_secs(20);
    }
    let elected = elect(&votes, known(Mode::Exclusive, Some(0), None)).unwrap();
    assert_eq!(
        elected,
        Elected {
            counted: vec![0, 1, 2],
            hold_count: 1,
            token: 5,
            lease: Duration::from_secs(20),
            serial: 5,
            repeated: true,
        }
    );
}

#[test]
fn a_defeat_says_why() {
    let busy = |seconds| Defeat::Busy(Some(Duration::from_secs(seconds)));
    for (words, expected) in [
        ("b9@5 b8@5 g1@6", busy(8)),
        ("b9@5 b8@5 b7@5", busy(8)),
        ("b9@5 b8@5 -", busy(9)),
        ("b9@5 b8@5 b7@5 g1@6 g1@6", busy(7)),
        // Counters that differ are those of votes that have not won, or of a grant that is being
        // made.
        ("b9@5 b8@6 g1@7", Defeat::Split),
        ("b9@5 g1@7 -", Defeat::Split),
        ("b9@5 b9@5 g1@7 g1@7 -", Defeat::Split),
        ("b9@5 - -", Defeat::TooFew),
        ("g1@5 - -", Defeat::TooFew),
        ("g1@5 ? ?", Defeat::TooFew),
        ("g2@5 g1@5 g3@5", Defeat::TooFew),
        ("w w g1@5", Defeat::Refused(CallError::WrongKind)),
        ("w g1@5 -", Defeat::TooFew),
        ("w b9@5 b9@5", busy(9)),
        ("w o o", Defeat::Refused(CallError::RequestOver)),
        ("o o g1@5 g1@5 -", Defeat::TooFew),
        ("o o g1@5 g1@5 w", Defeat::Refused(CallError::RequestOver)),
    ] {
        assert_eq!(defeat(&votes(words)), expected, "{words}");
    }
}

#[test]
fn a_release_is_what_a_majority_says() {
    use Ownership::{Expired, HeldByAnother, NeverHeld};
    let done = |hold_count| {
        Ok(Released::Done {
            hold_count,
            held: hold_count,
            lease: LEASE,
        })
    };
    let not = |why| Ok(Released::NotOwner(why));
    let away = || Err(CallError::OutcomeUnknown(String::new()));
    let combine = |answers: [Result<Released, CallError>; 3]| {
        let released = give_back::combine(&answers.into(), 2)?;
        Some(released.map(|released| match released {
            Released::Done { hold_count, .. } => Ok(hold_count),
            Released::NotOwner(why) => Err(why),
        }))
    };
    let kind = || Err(CallError::WrongKind);
    for (answers, expected) in [
        ([done(0), done(0), done(0)], Some(Ok(Ok(0)))),
        ([done(1), done(0), done(1)], Some(Ok(Ok(1)))),
        ([done(1), done(0), done(0)], Some(Ok(Ok(0)))),
        ([done(0), not(NeverHeld), done(0)], Some(Ok(Ok(0)))),
        ([done(0), not(Expired), away()], Some(Ok(Ok(0)))),
        (
            [done(0), not(Expired), not(NeverHeld)],
            Some(Ok(Err(Expired))),
        ),
        (
            [not(NeverHeld), not(NeverHeld), away()],
            Some(Ok(Err(NeverHeld))),
        ),
        (
            [not(HeldByAnother), not(HeldByAnother), not(Expired)],
            Some(Ok(Err(HeldByAnother))),
        ),
        (
            [not(HeldByAnother), not(Expired), away()],
            Some(Ok(Err(Expired))),
        ),
        ([done(0), away(), away()], None),
        ([kind(), done(0), done(0)], Some(Ok(Ok(0)))),
        ([kind(), kind(), done(0)], Some(Err(CallError::WrongKind))),
    ] {
        assert_eq!(combine(answers.clone()), expected, "{answers:?}");
    }
    let repeated = [0, 2, 0].map(|held| {
        Ok(Released::Done {
            hold_count: 1,
            held,
            lease: LEASE,
        })
    });
    let released = give_back::combine(&repeated.into(), 2);
    assert!(
        matches!(released, Some(Ok(Released::Done { held: 0, .. }))),
        "what a majority holds: {released:?}"
    );
}

#[test]
fn a_renewal_counts_only_holds_of_one_grant() {
    let held = |serial, seconds| {
        Some(Ok(Renewed {
            hold_count: 1,
            token: serial,
            lease: Duration::from_secs(seconds),
            serial,
            noted: false,
        }))
    };
    let gone = Some(Err(Ownership::Expired));
    let taken = Some(Err(Ownership::HeldByAnother));
    let away = None;
    let lease = |seconds| Some(Ok(Duration::from_secs(seconds)));
    for (seen, expected) in [
        ([held(5, 30), held(5, 30), held(5, 30)], lease(30)),
        ([held(5, 30), held(5, 20), held(5, 10)], lease(20)),
        ([held(5, 30), held(5, 30), gone], lease(30)),
        ([held(5, 30), held(5, 30), away], lease(30)),
        ([held(5, 30), held(9, 30), held(5, 30)], lease(30)),
        // What is left of an attempt that is being undone is no vote.
        ([held(5, 30), held(9, 30), gone], None),
        ([held(5, 30), held(9, 30), away], None),
        ([held(5, 30), away, gone], None),
        ([held(5, 30), gone, gone], Some(Err(Ownership::Expired))),
        ([held(5, 30), taken, gone], Some(Err(Ownership::Expired))),
        (
            [held(5, 30), taken, taken],
            Some(Err(Ownership::HeldByAnother)),
        ),
        ([away, gone, gone], Some(Err(Ownership::Expired))),
    ] {
        let combined = renew::combine(&seen, 2);
        let combined = combined.map(|outcome| outcome.map(|renewed| renewed.lease));
        assert_eq!(combined, expected, "{seen:?}");
    }
}

#[test]
fn a_lock_is_shown_as_most_of_those_that_answer_have_it() {
    let store = |owners: &[&'static str], token| Inspected {
        mode: (!owners.is_empty()).then_some(Mode::Exclusive),
        holders: owners
            .iter()
            .map(|owner| Holder {
                owner: Bytes::from_static(owner.as_bytes()),
                mode: Mode::Exclusive,
                hold_count: 1,
                remaining: Some(LEASE),
                note: None,
            })
            .collect(),
        holder_count: owners.len(),
        remaining: (!owners.is_empty()).then_some(LEASE),
        token,
        queue: Vec::new(),
        queue_len: 0,
    };
    let (a, b, free) = (store(&["a"], 5), store(&["b"], 9), store(&[], 7));
    let shown = |seen: &[&Inspected]| {
        let seen: Vec<_> = seen.iter().map(|it| (*it).clone()).collect();
        let shown = inspect::combine(&seen, 5);
        let owners = shown.holders.iter().map(|holder| holder.owner.clone());
        let owners: Vec<_> = owners.collect();
        (owners, shown.mode, shown.holder_count, shown.token)
    };
    let held = (vec![Bytes::from_static(b"a")], Some(Mode::Exclusive), 1, 5);
    assert_eq!(shown(&[&a, &a, &a, &b, &free]), held);
    assert_eq!(shown(&[&a, &a, &a]), held);
    assert_eq!(shown(&[&free, &free, &a, &b, &free]), (vec![], None, 0, 7));
    // Fewer answers: none of them may show less than the newest grant's.
    assert_eq!(shown(&[&a, &a, &b]).3, 9);
}
