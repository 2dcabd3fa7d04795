//! A line with waiters always has a head that tries again after the last hint.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_message_is_a_hint_for_the_head_which_follows_it_once() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let next = lines.join("a", EXCLUSIVE, "2");
    assert!(head.is_next() && !next.is_next());
    lines.message("a", EXCLUSIVE);
    assert!(has_news(&head).await && !has_news(&next).await);
    assert!(!next.follows_hint(), "it is not the head");
    assert!(head.follows_hint());
    assert!(!head.follows_hint(), "one hint is one attempt");
    lines.message("b", EXCLUSIVE);
    lines.message("a", READ);
    assert!(!has_news(&head).await && !head.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_wakes_nobody_is_no_hint() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let channel = channel(&name("a"), EXCLUSIVE, &owner("1"));
    // What others read beside the releases.
    lines.waiters.follow(&Wake::Message {
        channel,
        payload: b"-1".as_slice().into(),
    });
    let _ = has_news(&head).await;
    lines.waiters.hint("another channel");
    assert!(!has_news(&head).await);
    lines.waiters.hint(&keys::channel("a"));
    assert!(head.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn a_gap_is_a_hint_for_every_head() {
    for wake in [Wake::Gap, Wake::TakenOver] {
        let lines = Lines::new();
        let mut heads = Vec::new();
        for (of, goal) in [("a", EXCLUSIVE), ("a", READ), ("b", Goal::Permits)] {
            heads.push(lines.join(of, goal, "1"));
        }
        for head in &heads {
            head.news().await;
            head.follows_hint();
        }
        while has_news(&heads[0]).await || has_news(&heads[1]).await {}
        for head in &heads {
            let _ = head.follows_hint();
        }
        lines.waiters.follow(&wake);
        for head in &heads {
            assert!(has_news(head).await && head.follows_hint(), "{wake:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_leaves_without_the_lock_leaves_a_hint_for_the_next() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let next = lines.join("a", EXCLUSIVE, "2");
    drop(head);
    assert!(has_news(&next).await && next.is_next() && next.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn a_head_that_leaves_with_the_lock_leaves_no_hint_and_a_reader_does() {
    for (goal, hint) in [(EXCLUSIVE, false), (WRITE, false), (READ, true)] {
        let lines = Lines::new();
        let mut head = lines.head("a", goal, "1").await;
        let next = lines.join("a", goal, "2");
        head.leave_granted(HolderKnown::default());
        drop(head);
        assert!(has_news(&next).await && next.is_next());
        assert_eq!(next.follows_hint(), hint, "{goal:?}");
    }
    for took_all in [true, false] {
        let lines = Lines::new();
        let mut head = lines.head("s", Goal::Permits, "1").await;
        let next = lines.join("s", Goal::Permits, "2");
        head.leave_with_permits(took_all);
        drop(head);
        assert!(has_news(&next).await);
        assert_eq!(next.follows_hint(), !took_all);
    }
}

#[tokio::test(start_paused = true)]
async fn one_in_the_middle_leaves_without_a_word() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let middle = lines.join("a", EXCLUSIVE, "2");
    let last = lines.join("a", EXCLUSIVE, "3");
    drop(middle);
    assert!(!has_news(&head).await && !has_news(&last).await);
    assert!(head.is_next() && !last.is_next() && !last.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn a_message_during_an_attempt_is_followed_after_it() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    head.begin_try();
    lines.message("a", EXCLUSIVE);
    head.busy_until(HolderKnown::default(), None);
    assert!(head.follows_hint());
    head.no_outcome();
    assert!(!head.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn a_fair_lock_has_one_waiter_in_the_whole_store_that_tries_without_a_hint() {
    let lines = Lines::new();
    let place = |by: &str, place| {
        let (account, holder) = (Account::default(), HolderKnown::default());
        let caller = (owner(by), &account);
        let joined = lines
            .waiters
            .join(&name("a"), FAIR, caller, holder, Some(place));
        joined.unwrap()
    };
    let (later, first) = (place("1", 7), place("2", 1));
    assert_eq!(later.standing().position, 7);
    assert!(!later.is_next() && first.is_next());
    later.busy_until(HolderKnown::default(), Some(1));
    assert!(later.is_next());
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_part_of_a_deadlock_hears_it() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let waiter = &lines.waiters.list(&name("a"), 1).0[0];
    assert!(!waiter.ends_on_deadlock());
    head.end_on_deadlock();
    assert!(waiter.ends_on_deadlock() && !head.has_ended_in_deadlock());
    waiter.end_in_deadlock();
    assert!(has_news(&head).await && head.has_ended_in_deadlock());
}

#[tokio::test(start_paused = true)]
async fn a_try_without_a_hint_takes_the_hint_that_arrived_meanwhile() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    lines.message("a", EXCLUSIVE);
    head.begin_try();
    assert!(!head.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn the_first_of_a_line_whose_channel_is_followed_already_looks_at_once() {
    let lines = Lines::new();
    let _reader = lines.head("a", READ, "1").await;
    let writer = lines.join("a", WRITE, "2");
    assert!(has_news(&writer).await && writer.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn a_message_for_nobody_is_no_hint() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    for (payload, is_hint) in [(b"-1".as_slice(), false), (b"0", true)] {
        let channel = channel(&name("a"), EXCLUSIVE, &owner(""));
        let payload = payload.into();
        lines.waiters.follow(&Wake::Message { channel, payload });
        assert_eq!(head.follows_hint(), is_hint);
    }
}
