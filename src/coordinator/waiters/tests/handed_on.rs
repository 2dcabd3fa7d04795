//! A release here is an early hint for the next waiter, whose own message is then passed over.

use std::{future::Future, pin::pin};

use lockkeeper_store::script::{CallError, Mode, Ownership, Released};
use tokio::{sync::oneshot, task::JoinHandle};

use super::*;
use crate::{types::LockName, waiters::handover::LastHold};

type Answer = Result<Released, CallError>;

/// A release that is on its way until it is answered.
struct Sent {
    answer: oneshot::Sender<Answer>,
    release: JoinHandle<Answer>,
}

const DONE: Answer = Ok(Released::Done {
    hold_count: 0,
    held: 0,
    lease: Duration::ZERO,
});

/// The hold that a release gives back.
fn last<'a>(name: &'a LockName, owner: &'a Owner) -> LastHold<'a> {
    LastHold {
        name,
        mode: Mode::Exclusive,
        owner,
        field: None,
        serial: None,
    }
}

// === impl Lines ===

impl Lines {
    /// Releases the lock with this call.
    async fn release_by(&self, call: impl Future<Output = Answer> + Send) -> Answer {
        let (of, holder) = (name("a"), owner("holder"));
        let last = last(&of, &holder);
        self.waiters.hand_over(last, false, pin!(call)).await
    }

    /// Sends a release, which the store has not answered yet.
    async fn send(&self) -> Sent {
        let (answer, answered) = oneshot::channel();
        let waiters = Arc::clone(&self.waiters);
        let release = self.waiters.tasks.spawn("release", async move {
            let (of, holder) = (name("a"), owner("holder"));
            let call = pin!(async { answered.await.unwrap() });
            waiters.hand_over(last(&of, &holder), false, call).await
        });
        tokio::task::yield_now().await;
        Sent { answer, release }
    }
}

// === impl Sent ===

impl Sent {
    async fn answered(self, answer: Answer) {
        self.answer.send(answer.clone()).unwrap();
        assert_eq!(self.release.await.unwrap(), answer);
    }
}

#[tokio::test(start_paused = true)]
async fn the_head_tries_behind_the_release_and_the_message_of_it_is_passed_over() {
    let lines = Lines::new();
    let mut head = lines.head("a", EXCLUSIVE, "1").await;
    let next = lines.join("a", EXCLUSIVE, "2");
    let sent = lines.send().await;
    assert!(has_news(&head).await && head.follows_hint());
    head.leave_granted(HolderKnown::default());
    drop(head);
    let _ = has_news(&next).await;
    sent.answered(DONE).await;
    assert!(
        !has_news(&next).await && !next.follows_hint(),
        "it was granted"
    );
    lines.message("a", EXCLUSIVE);
    assert!(!next.follows_hint(), "that was its message");
    lines.message("a", EXCLUSIVE);
    assert!(next.follows_hint(), "another one was released");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_overtook_the_release_is_made_again() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let sent = lines.send().await;
    assert!(head.follows_hint());
    head.busy_until(HolderKnown::default(), None);
    while has_news(&head).await {}
    sent.answered(DONE).await;
    assert!(has_news(&head).await && head.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_still_under_way_is_followed_by_another_if_it_gets_nothing() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let sent = lines.send().await;
    assert!(head.follows_hint());
    sent.answered(DONE).await;
    assert!(!head.follows_hint(), "not before it has an outcome");
    head.busy_until(HolderKnown::default(), None);
    assert!(head.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_had_no_effect_has_no_message_either() {
    let away = || Err(CallError::Unavailable(String::new()));
    let left = || {
        Ok(Released::Done {
            hold_count: 1,
            held: 1,
            lease: SECOND,
        })
    };
    let not_owner = || Ok(Released::NotOwner(Ownership::Expired));
    for answer in [away(), left(), not_owner()] {
        let lines = Lines::new();
        let head = lines.head("a", EXCLUSIVE, "1").await;
        let sent = lines.send().await;
        assert!(head.follows_hint());
        head.busy_until(HolderKnown::default(), None);
        sent.answered(answer).await;
        assert!(!head.follows_hint(), "nothing has changed");
        lines.message("a", EXCLUSIVE);
        assert!(head.follows_hint(), "another one was released");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_may_have_run_is_a_reason_to_try_and_to_hear_every_message() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let sent = lines.send().await;
    assert!(head.follows_hint());
    head.busy_until(HolderKnown::default(), None);
    sent.answered(Err(CallError::OutcomeUnknown(String::new())))
        .await;
    assert!(head.follows_hint());
    head.busy_until(HolderKnown::default(), None);
    lines.message("a", EXCLUSIVE);
    assert!(head.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_answered_at_once_is_heard_of_by_its_message() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    assert_eq!(lines.release_by(async { DONE }).await, DONE);
    assert!(!head.follows_hint());
    lines.message("a", EXCLUSIVE);
    assert!(head.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn before_the_channel_is_subscribed_to_the_next_message_is_that_of_another() {
    let lines = Lines::new();
    let head = lines.join("a", EXCLUSIVE, "1");
    let (answer, answered) = oneshot::channel();
    let call = async move { answered.await.unwrap() };
    let release = lines.release_by(call);
    tokio::pin!(release);
    assert!(futures::poll!(&mut release).is_pending());
    assert!(head.follows_hint());
    head.busy_until(HolderKnown::default(), None);
    answer.send(DONE).unwrap();
    assert_eq!(release.await, DONE);
    while has_news(&head).await {
        head.follows_hint();
        head.no_outcome();
    }
    lines.message("a", EXCLUSIVE);
    assert!(head.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn after_sixteen_in_a_row_others_elsewhere_have_their_turn() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    for _ in 0..16 {
        let sent = lines.send().await;
        assert!(head.follows_hint());
        head.busy_until(HolderKnown::default(), None);
        sent.answered(DONE).await;
        assert!(head.follows_hint());
        head.busy_until(HolderKnown::default(), None);
    }
    let sent = lines.send().await;
    assert!(!head.follows_hint(), "this one is only published");
    sent.answered(DONE).await;
    assert!(!head.follows_hint());
    lines.message("a", EXCLUSIVE);
    assert!(head.follows_hint());
    let again = lines.send().await;
    assert!(head.follows_hint());
    again.answered(DONE).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_during_an_attempt_is_a_hint_if_the_attempt_gets_nothing() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let sent = lines.send().await;
    assert!(head.follows_hint(), "the attempt begins");
    sent.answered(DONE).await;
    assert!(!head.follows_hint());
    head.no_outcome();
    assert!(head.follows_hint());
}

#[tokio::test(start_paused = true)]
async fn an_offer_that_the_head_does_not_accept_at_once_is_withdrawn() {
    let lines = Lines::new();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    head.take_offers();
    let (of, holder) = (name("a"), owner("holder"));
    let offered = lines.waiters.offer(last(&of, &holder)).unwrap();
    let handed_over = lines.waiters.hand_over_in_one_call(&holder, offered);
    let handed_over = tokio::time::timeout(MILLI, handed_over).await;
    assert!(handed_over.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_offered_to_a_writer_is_not_for_a_reader_that_tries_meanwhile() {
    let lines = Lines::new();
    let writer = lines.head("a", WRITE, "1").await;
    let reader = lines.join("a", READ, "2");
    let (of, holder) = (name("a"), owner("holder"));
    for ticket in [&writer, &reader] {
        ticket.take_offers();
    }
    writer.no_outcome();
    let last = LastHold {
        mode: Mode::Write,
        ..last(&of, &holder)
    };
    let _offered = lines.waiters.offer(last).unwrap();
    assert!(reader.offered().is_none());
    assert!(writer.offered().is_some());
}
