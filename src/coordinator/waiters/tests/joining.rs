//! Who may wait, in which order, and how they are shown.

use lockkeeper_store::script::NameKind;
use tokio::time::Instant;

use super::*;
use crate::{error::Limit, events::What};

#[tokio::test(start_paused = true)]
async fn waiters_are_limited_for_each_lock_and_in_total() {
    let lines = Lines::new();
    let mut tickets = Vec::new();
    for by in ["1", "2", "3"] {
        tickets.push(lines.join("a", EXCLUSIVE, by));
    }
    let full = |of| lines.try_join(of, EXCLUSIVE, "x").err();
    let limit = |limit| Some(Error::LimitReached(limit));
    assert_eq!(full("a"), limit(Limit::WaitersPerLock));
    tickets.push(lines.join("b", EXCLUSIVE, "4"));
    tickets.push(lines.join("b", EXCLUSIVE, "5"));
    assert_eq!(full("b"), limit(Limit::Waiters));
    // One of them may leave its line for another.
    let (account, holder) = (Account::default(), HolderKnown::default());
    let caller = (owner("x"), &account);
    let moved = lines.waiters.move_to(&name("b"), EXCLUSIVE, caller, holder);
    drop(moved.unwrap());
    assert_eq!(lines.waiters.waiting(), MAX);
    tickets.pop();
    tickets.remove(0);
    assert_eq!(lines.waiters.waiting(), MAX - 2);
    assert_eq!(full("a"), None);
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_fair_lock_are_limited_although_each_has_a_line_of_its_own() {
    let lines = Lines::new();
    let tickets = ["1", "2", "3"].map(|by| lines.join("a", FAIR, by));
    let full = lines.try_join("a", FAIR, "4").err();
    assert_eq!(full, Some(Error::LimitReached(Limit::WaitersPerLock)));
    let positions = tickets.iter().map(|it| it.standing().position);
    assert_eq!(positions.collect::<Vec<_>>(), [1, 2, 3]);
    drop(tickets);
    lines.join("a", FAIR, "4");
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_a_quota_has_so_many_waiters_for_each_name() {
    let lines = Lines::new();
    let account = account(2);
    let join = |of: &str, by: &str| {
        let (caller, holder) = ((owner(by), &account), HolderKnown::default());
        lines
            .waiters
            .join(&name(of), EXCLUSIVE, caller, holder, None)
    };
    let first = join("a", "1").unwrap();
    let _second = join("a", "2").unwrap();
    assert!(matches!(join("a", "3"), Err(Error::QuotaReached(_))));
    assert_eq!(lines.waiters.waiting(), 2, "a refused one does not wait");
    let _other = join("b", "3").unwrap();
    drop(first);
    let _third = join("a", "3").unwrap();
    assert!(join("a", "4").is_err());
}

#[tokio::test(start_paused = true)]
async fn waiters_are_listed_in_order_by_what_they_wait_for() {
    let lines = Lines::within(10, 20);
    let mut tickets = Vec::new();
    for (of, goal, by) in [
        ("a", EXCLUSIVE, "1"),
        ("a", EXCLUSIVE, "2"),
        ("a", READ, "3"),
        ("a", READ, "4"),
        ("a", WRITE, "5"),
        ("a", FAIR, "6"),
        ("ab", EXCLUSIVE, "7"),
        ("a", Goal::Permits, "8"),
        ("a", Goal::Permits, "9"),
        ("a", Goal::Latch, "10"),
    ] {
        tickets.push(lines.join(of, goal, by));
    }
    let all = ["1", "2", "3", "4", "5", "6"].map(str::to_owned).to_vec();
    // Those of a fair lock have an entry in the store's queue.
    assert_eq!(lines.labels("a", EXCLUSIVE, 10), (all, 5));
    let first = ["1", "3", "5", "6"].map(str::to_owned).to_vec();
    assert_eq!(lines.labels("a", EXCLUSIVE, 1), (first, 5), "of each mode");
    let permits = ["8", "9"].map(str::to_owned).to_vec();
    assert_eq!(lines.labels("a", Goal::Permits, 10), (permits, 2));
    let permits = vec!["8".to_owned()];
    assert_eq!(lines.labels("a", Goal::Permits, 1), (permits, 2));
    let latch = vec!["10".to_owned()];
    assert_eq!(lines.labels("a", Goal::Latch, 10), (latch, 1));
    assert_eq!(lines.labels("b", Goal::Latch, 10), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn contended_names_are_those_that_are_waited_for_the_longest_wait_first() {
    let lines = Lines::new();
    let begun = Instant::now();
    let mut tickets = Vec::new();
    for (of, goal, by) in [
        ("b", WRITE, "1"),
        ("a", EXCLUSIVE, "2"),
        ("b", READ, "3"),
        ("b", READ, "4"),
        ("b", EXCLUSIVE, "5"),
    ] {
        tickets.push(lines.join(of, goal, by));
        tokio::time::advance(SECOND).await;
    }
    let contended = lines.waiters.contended();
    let short = contended.iter().map(|it| {
        let since = it.since - begun;
        (it.name.public(), it.kind, it.waiters, since.as_secs())
    });
    let expected = [
        ("b", NameKind::ReadWriteLock, 3, 0),
        ("a", NameKind::Lock, 1, 1),
        ("b", NameKind::Lock, 1, 4),
    ];
    assert_eq!(short.collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_waits_of_a_session_are_its_own() {
    let lines = Lines::new();
    let (mine, other) = (SessionId::random(), SessionId::random());
    let account = Account::default();
    let mut tickets = Vec::new();
    for (of, session, label) in [("a", &mine, "1"), ("b", &mine, "2"), ("c", &other, "3")] {
        let (caller, holder) = (
            (in_session(session, label), &account),
            HolderKnown::default(),
        );
        let joined = lines
            .waiters
            .join(&name(of), EXCLUSIVE, caller, holder, None);
        tickets.push(joined.unwrap());
    }
    tickets.push(lines.join("d", EXCLUSIVE, "4"));
    let names = |max| {
        let waits = lines.waiters.of_session(&mine, max).into_iter();
        waits
            .map(|it| it.event.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(10), ["a", "b"]);
    assert_eq!(names(1), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn watchers_hear_when_a_wait_begins_and_ends_and_later_ones_which_go_on() {
    let mut lines = Lines::new();
    let ticket = lines.join("a", EXCLUSIVE, "1");
    let other = lines.join("b", READ, "2");
    let mut told = || {
        let event = lines.told.try_recv().ok()?;
        Some((event.what, event.name.to_string()))
    };
    assert_eq!(told(), Some((What::WaitBegan, "a".to_owned())));
    assert_eq!(told(), Some((What::WaitBegan, "b".to_owned())));
    drop(ticket);
    assert_eq!(told(), Some((What::WaitEnded, "a".to_owned())));
    let mut snapshot = Vec::new();
    let retell = |of: &'static str, to: &mut Vec<_>| {
        lines.waiters.retell(to, |name| name.public() == of);
    };
    retell("a", &mut snapshot);
    assert!(snapshot.is_empty());
    retell("b", &mut snapshot);
    assert_eq!(snapshot.len(), 1);
    assert_eq!(snapshot[0].what, What::WaitBegan);
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn waits_are_measured_except_those_for_a_latch() {
    let lines = Lines::new();
    let tickets = [
        lines.join("a", EXCLUSIVE, "1"),
        lines.join("l", Goal::Latch, "2"),
    ];
    tokio::time::advance(SECOND).await;
    drop(tickets);
    let contended = lines.metrics.contention.all();
    assert_eq!(contended.len(), 1);
    let a = &contended[0];
    assert_eq!((a.name.public(), a.wait_count, a.waited), ("a", 1, SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_channel_is_subscribed_to_while_somebody_waits_on_it() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let next = lines.join("a", EXCLUSIVE, "2");
    assert_eq!(lines.subscriptions("a"), 1);
    drop(head);
    assert_eq!(lines.subscriptions("a"), 1);
    drop(next);
    assert_eq!(lines.subscriptions("a"), 0);
    // One who leaves before the store has confirmed is followed by the end of the subscription.
    drop(lines.join("a", EXCLUSIVE, "3"));
    tokio::time::sleep(SECOND).await;
    assert_eq!(lines.subscriptions("a"), 0);
    let again = lines.join("a", EXCLUSIVE, "4");
    again.news().await;
    assert_eq!(lines.subscriptions("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_left_in_the_store_may_be_wanted_by_its_other_wait() {
    let lines = Lines::new();
    let of = name("a");
    let wants = |mode, by: &str| lines.waiters.others_want(&of, mode, &owner(by));
    assert!(!wants(Mode::Fair, "1"));
    let _fair = lines.join("a", FAIR, "1");
    assert!(wants(Mode::Fair, "1") && !wants(Mode::Fair, "2"));
    assert!(!wants(Mode::Write, "1"));
    let _writer = lines.join("a", WRITE, "1");
    assert!(wants(Mode::Write, "2"), "the mark is of all writers here");
    assert!(!wants(Mode::Read, "1"));
}
