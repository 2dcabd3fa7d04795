//! The protocol keeps its promises within small bounds, and each breakage is found.

use crate::{
    explore::explore,
    quorum::{self, Breakage as QuorumBreakage},
    session::{self, Bounds, Breakage},
};

const SMALL: Bounds = Bounds {
    ticks: 0,
    calls: 2,
    acquires: 1,
    breaks: 1,
    renewals: 1,
    watches: 0,
    failovers: 0,
    is_prompt: false,
};

/// The store loses a suffix of its writes.
const FAILOVER: Bounds = Bounds {
    ticks: 5,
    breaks: 0,
    renewals: 0,
    failovers: 1,
    ..SMALL
};

/// What must happen does.
const PROMPT: Bounds = Bounds {
    calls: 3,
    renewals: 0,
    is_prompt: true,
    ..SMALL
};

const TWICE: Bounds = Bounds {
    acquires: 2,
    renewals: 0,
    ..SMALL
};

const QUORUM: quorum::Bounds = quorum::Bounds {
    ticks: None,
    attempts: 2,
    losses: 0,
};

/// The clocks of the members differ.
const CLOCKS: quorum::Bounds = quorum::Bounds {
    ticks: Some(3),
    ..QUORUM
};

/// Which of the two is found first is left to chance.
const RELIED: &[&str] = &[
    "the store has given to it what a client relies on",
    "the store has what a coordinator counts on",
];
const TOKENS: &[&str] = &["tokens grow over every new grant"];
const ONCE: &[&str] = &["one request changes state once"];
const GRANTED: &[&str] = &["a free lock with a waiter is granted"];
const MAJORITIES: &[&str] = &[
    "two majorities meet in a member that refuses",
    "tokens grow over every grant",
];
const QUORUM_TOKENS: &[&str] = &["tokens grow over every grant"];

/// Nothing is found, and enough was explored to find something.
fn holds(bounds: Bounds, at_least: usize) {
    let broken = None;
    let found = explore(session::Protocol { bounds, broken });
    assert!(
        found.wrong.is_empty() && found.unseen.is_empty(),
        "{found:#?}"
    );
    assert!(found.states >= at_least, "{found:#?}");
}

/// A breakage is found as what it breaks.
fn finds(breakage: Breakage, bounds: Bounds, properties: &[&str]) {
    let broken = Some(breakage);
    let found = explore(session::Protocol { bounds, broken });
    let is_found = found
        .wrong
        .iter()
        .any(|(name, _)| properties.contains(name));
    assert!(is_found, "{breakage:?}: {found:#?}");
}

fn finds_in_quorum(breakage: QuorumBreakage, bounds: quorum::Bounds, properties: &[&str]) {
    let broken = Some(breakage);
    let found = explore(quorum::Protocol { bounds, broken });
    let is_found = found
        .wrong
        .iter()
        .any(|(name, _)| properties.contains(name));
    assert!(is_found, "{breakage:?}: {found:#?}");
}

#[test]
fn sessions_keep_their_promises() {
    let no_renewals = Bounds {
        renewals: 0,
        ..SMALL
    };
    holds(no_renewals, 200_000);
}

#[test]
fn tokens_grow_over_a_failover_that_loses_writes() {
    holds(FAILOVER, 100_000);
}

#[test]
fn waiters_are_granted() {
    holds(PROMPT, 10_000);
}

#[test]
fn a_quorum_keeps_its_promises() {
    for bounds in [QUORUM, CLOCKS] {
        let broken = None;
        let found = explore(quorum::Protocol { bounds, broken });
        assert!(
            found.wrong.is_empty() && found.unseen.is_empty(),
            "{found:#?}"
        );
        assert!(found.states >= 100_000, "{found:#?}");
    }
}

macro_rules! breakages {
    ($($test:ident: $finds:ident($($argument:expr),*);)*) => { $(
        #[test]
        fn $test() {
            $finds($($argument),*);
        }
    )* };
}

breakages! {
    valid_for_from_the_answer: finds(Breakage::ValidFromAnswer, SMALL, RELIED);
    valid_for_from_the_stores_answer: finds(Breakage::CoordinatorCountsFromAnswer, SMALL, RELIED);
    no_drift_margin: finds(Breakage::NoDriftMargin, SMALL, RELIED);
    relied_on_until_released: finds(Breakage::ReliesUntilReleased, SMALL, RELIED);
    relied_on_until_a_notice: finds(Breakage::ReliesUntilNotice, SMALL, RELIED);
    a_retry_with_the_lease_of_a_new_grant: finds(Breakage::RepeatWithFullLease, SMALL, RELIED);
    no_record_of_an_acquire: finds(Breakage::NoAcquireRecord, SMALL, ONCE);
    a_release_by_the_owner_alone: finds(Breakage::ReleasesByOwnerAlone, TWICE, RELIED);
    a_retry_with_a_new_request_id: finds(Breakage::NewRequestId, SMALL, ONCE);
    a_release_by_anyone: finds(Breakage::AnyoneReleases, SMALL, RELIED);
    a_renewal_of_what_has_ended: finds(Breakage::RenewsWhatEnded, SMALL, RELIED);
    a_renewal_that_takes_over: finds(Breakage::RenewalTakesOver, SMALL, RELIED);
    a_hand_over_with_the_same_token: finds(Breakage::HandOverKeepsToken, SMALL, TOKENS);
    tokens_without_the_clock: finds(Breakage::TokensWithoutClock, FAILOVER, TOKENS);
    a_failover_within_the_skew: finds(Breakage::FailoverWithinSkew, FAILOVER, TOKENS);
    waiters_that_do_not_poll: finds(Breakage::NoPoll, PROMPT, GRANTED);
    one_vote: finds_in_quorum(QuorumBreakage::OneVote, QUORUM, MAJORITIES);
    no_raise: finds_in_quorum(QuorumBreakage::NoRaise, CLOCKS, QUORUM_TOKENS);
    the_smallest_token: finds_in_quorum(QuorumBreakage::SmallestToken, CLOCKS, QUORUM_TOKENS);
    valid_for_from_the_last_vote:
        finds_in_quorum(QuorumBreakage::ValidFromLastVote, QUORUM, MAJORITIES);
    relied_on_while_it_is_undone:
        finds_in_quorum(QuorumBreakage::ReliesUntilReleased, QUORUM, MAJORITIES);
}
