//! Streams come and go; then the session ends.

use std::sync::atomic::Ordering;

use super::{LEASE, MILLI, SECOND, Table};
use crate::{
    error::{Error, Limit},
    events::What,
    metrics::families::SessionTally,
    session::EndedByForce,
    types::LostReason,
};
use lockkeeper_store::script::Mode;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_stream_replaces_an_earlier_one_and_the_waits_go_on() {
    let (table, first) = Table::live();
    let waits = table.session.live().unwrap();
    let second = table.session.attach(&table.deadlines).unwrap();
    assert!(first.is_cancelled() && !second.is_cancelled() && !waits.is_cancelled());
    let until = Instant::now() + LEASE;
    assert!(
        !table.session.detach(&first, until),
        "it is none of its own"
    );
    assert!(table.session.live().is_ok());
    assert!(table.session.detach(&second, until));
    assert!(waits.is_cancelled() && second.is_cancelled());
    assert_eq!(table.session.live().unwrap_err(), Error::SessionDetached);
    assert!(!table.session.detach(&second, until), "it is so already");
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_streams_break_often_is_looked_at_once_and_not_after_it_is_back() {
    let (table, _stream) = Table::live();
    let until = Instant::now() + SECOND;
    table.session.await_resume(&table.deadlines, until);
    assert_eq!(table.deadlines.len(), 0, "it has a stream");
    for seconds in 1..4 {
        let stream = table.session.attach(&table.deadlines).unwrap();
        assert_eq!(table.deadlines.len(), 0);
        let until = Instant::now() + SECOND * seconds;
        assert!(table.session.detach(&stream, until));
        for _ in 0..2 {
            table.session.await_resume(&table.deadlines, until);
        }
        assert_eq!(table.deadlines.len(), 1);
    }
    let (after, what) = table.until_due().await;
    assert_eq!((after, what), (SECOND * 3, None));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_resumes_leaves_its_grants_to_their_leases() {
    let (mut table, stream) = Table::live();
    table.hold("a");
    table.told();
    assert!(
        !table
            .session
            .end_if_abandoned(&table.deadlines, Instant::now())
    );
    let until = Instant::now() + SECOND;
    table.session.detach(&stream, until);
    assert!(
        !table
            .session
            .end_if_abandoned(&table.deadlines, until - MILLI)
    );
    assert_eq!(table.told(), None);
    assert!(table.session.end_if_abandoned(&table.deadlines, until));
    assert_eq!(table.told(), Some((What::Abandoned, "a".to_owned(), 1)));
    assert_eq!((table.deadlines.len(), table.counted()), (0, 0));
    assert_eq!(table.session.live().unwrap_err(), Error::SessionNotFound);
    assert!(table.session.attach(&table.deadlines).is_none());
    assert!(!table.session.end_if_abandoned(&table.deadlines, until));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_its_client_ends_gives_its_grants_back_once() {
    let (mut table, stream) = Table::live();
    let waits = table.session.live().unwrap();
    let (_, lost) = table.take(table.grant("a", Mode::Exclusive, 1));
    table.told();
    let grants = table.session.end(&table.deadlines).unwrap();
    assert_eq!(grants.len(), 1);
    assert!(stream.is_cancelled() && waits.is_cancelled());
    assert!(lost.is_set(), "an answer on its way is none any more");
    assert_eq!(table.told(), Some((What::Released, "a".to_owned(), 0)));
    assert_eq!((table.deadlines.len(), table.counted()), (0, 0));
    assert!(table.session.end(&table.deadlines).is_none());
    let mut again = table.grant("a", Mode::Exclusive, 2);
    let now = Instant::now();
    let refused = table
        .session
        .register(&table.deadlines, &mut again, None, now);
    assert_eq!(refused.unwrap_err(), Error::SessionNotFound);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_resumed_elsewhere_ends_here_unless_it_came_back_since() {
    for (generation, ends) in [(3, false), (4, false), (5, true)] {
        let (mut table, stream) = Table::live();
        table.session.generation.store(4, Ordering::Relaxed);
        table.hold("a");
        table.told();
        let moved = table.session.end_if_moved(&table.deadlines, generation);
        assert_eq!((moved, stream.is_cancelled()), (ends, ends));
        assert_eq!(table.session.live().is_ok(), !ends);
        assert_eq!(table.session.grants().is_empty(), ends);
        assert_eq!(table.told(), None, "it holds them elsewhere");
        assert!(!table.session.end_if_moved(&table.deadlines, generation));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_makes_room_for_others_if_nothing_is_left_to_come_back_for() {
    let (table, stream) = Table::live();
    let until = Instant::now() + SECOND;
    let ends = || table.session.end_if_empty(&table.deadlines);
    assert!(!ends(), "it has a stream");
    let key = table.hold("a");
    table.session.detach(&stream, until);
    table.session.await_resume(&table.deadlines, until);
    assert!(!ends(), "it has a grant");
    table
        .session
        .lose(&table.deadlines, &key, LostReason::Expired);
    assert!(!ends(), "its client does not know of the loss");
    assert!(table.notice().await.is_some());
    assert_eq!(table.deadlines.len(), 1);
    assert!(ends());
    assert_eq!(table.deadlines.len(), 0);
    assert_eq!(table.session.live().unwrap_err(), Error::SessionNotFound);
}

#[tokio::test(start_paused = true)]
async fn a_session_between_its_start_and_its_first_stream_makes_no_room() {
    let table = Table::new();
    assert!(!table.session.end_if_empty(&table.deadlines));
}

#[tokio::test(start_paused = true)]
async fn waits_are_counted_up_to_their_limit() {
    let (table, _stream) = Table::live();
    let begin = || table.session.begin_wait(2);
    assert_eq!((begin(), begin()), (Ok(()), Ok(())));
    let full = Error::LimitReached(Limit::WaitsPerSession);
    assert_eq!(begin(), Err(full));
    table.session.end_wait();
    assert_eq!(begin(), Ok(()));
    assert_eq!(table.session.seen().waits, 2);
}

#[tokio::test(start_paused = true)]
async fn sessions_are_tallied_by_whether_they_have_a_stream() {
    let mut tally = SessionTally::default();
    let tables = [Table::live(), Table::live(), Table::live()];
    for ((table, _), names) in tables.iter().zip([&["a", "b"][..], &["c"], &[]]) {
        for name in names {
            table.hold(name);
        }
        table.session.count_in(&mut tally);
    }
    assert_eq!((tally.live, tally.detached, tally.grants), (3, 0, 3));
    assert_eq!(tally.at_risk, 0);
    let mut tally = SessionTally::default();
    for (table, stream) in &tables {
        table.session.detach(stream, Instant::now());
        table.session.count_in(&mut tally);
    }
    assert_eq!((tally.live, tally.detached, tally.grants), (0, 3, 3));
    let mut tally = SessionTally::default();
    for (table, _) in &tables {
        table.session.end(&table.deadlines);
        table.session.count_in(&mut tally);
    }
    assert_eq!((tally.live, tally.detached, tally.grants), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_ended_by_force_is_told_of_its_losses_first() {
    let (mut table, stream) = Table::live();
    let waits = table.session.live().unwrap();
    let (_, flag) = table.take(table.grant("a", Mode::Exclusive, 1));
    table.told();
    let grants = table.session.end_by_force(&table.deadlines, "it hangs");
    assert_eq!(grants.unwrap().len(), 1);
    assert!(waits.is_cancelled() && flag.is_set());
    assert!(!stream.is_cancelled(), "the client is still to be told");
    let (what, name, _) = table.told().unwrap();
    assert!(matches!(what, What::Lost(LostReason::ForceReleased { .. })));
    assert_eq!(name, "a");
    assert_eq!(table.notice().await.unwrap(), "lost a FORCE_RELEASED");
    let ended = table.session.notice().await.unwrap_err();
    assert_eq!(ended, EndedByForce("it hangs".into()));
    assert!(
        table
            .session
            .end_by_force(&table.deadlines, "again")
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_says_what_it_holds_only_while_it_waits_for_nothing() {
    let (table, _stream) = Table::live();
    assert_eq!(table.session.names(), None);
    assert!(!table.session.holds_any());
    table.hold("a");
    assert!(table.session.holds_any());
    assert_eq!(table.session.names().unwrap().len(), 1);
    table.session.begin_wait(1).unwrap();
    assert_eq!(table.session.names(), None);
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_away_once() {
    let (table, _stream) = Table::live();
    assert_eq!(table.notice().await, None);
    table.session.go_away();
    assert_eq!(table.notice().await.unwrap(), "going away");
    assert_eq!(table.notice().await, None);
}
