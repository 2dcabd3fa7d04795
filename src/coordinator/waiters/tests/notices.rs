//! Notices to waiters: their position, and the holder of the lock.

use tokio::time::Instant;

use super::*;
use crate::waiters::place::QueueStatus;

fn until(after: Duration) -> HolderKnown {
    Some(Instant::now() + after).into()
}

#[tokio::test(start_paused = true)]
async fn positions_move_up_at_most_once_a_second() {
    let lines = Lines::new();
    let notifying = lines.notify();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let others = ["2", "3"].map(|by| lines.join("a", EXCLUSIVE, by));
    let other_lock = lines.join("b", EXCLUSIVE, "4");
    let positions = || [0, 1].map(|at| others[at].standing().position);
    assert_eq!(positions(), [2, 3]);
    drop(head);
    let _ = has_news(&others[0]).await;
    let begun = Instant::now();
    others[1].news().await;
    let after = begun.elapsed();
    assert!(after > SECOND * 9 / 10 && after <= SECOND, "{after:?}");
    assert_eq!(positions(), [1, 2]);
    assert_eq!(other_lock.standing().position, 1);
    lines.waiters.tasks.request_stop();
    notifying.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_fair_lock_keep_the_place_that_the_store_gave_them() {
    let lines = Lines::new();
    lines.notify();
    let ticket = lines.head("a", FAIR, "1").await;
    ticket.busy_until(until(SECOND * 30), Some(5));
    ticket.news().await;
    assert_eq!(ticket.standing().position, 5);
}

#[tokio::test(start_paused = true)]
async fn others_hear_of_another_holder_and_of_another_end_of_its_lease() {
    let lines = Lines::new();
    lines.notify();
    let head = lines.head("a", EXCLUSIVE, "1").await;
    let next = lines.join("a", EXCLUSIVE, "2");
    let holder = until(SECOND * 30);
    head.busy_until(holder.clone(), None);
    next.news().await;
    assert_eq!(next.standing().holder, holder);
    // It is not renewed, and time passes.
    let same = until((holder.until.unwrap() - Instant::now()) + MILLI * 400);
    head.busy_until(same, None);
    assert!(tokio::time::timeout(SECOND * 3, next.news()).await.is_err());
    head.busy_until(until(SECOND * 60), None);
    next.news().await;
}

#[tokio::test(start_paused = true)]
async fn a_status_is_news_if_its_position_its_holder_or_the_end_of_the_lease_is() {
    let now = Instant::now();
    let note = |reason: &str| {
        let note = crate::types::note(reason.to_owned(), std::collections::BTreeMap::new());
        note.unwrap()
    };
    let status = |position, until: Option<u64>, reason: &str| QueueStatus {
        position,
        holder: HolderKnown {
            until: until.map(|millis| now + MILLI * u32::try_from(millis).unwrap()),
            note: note(reason),
        },
    };
    let before = status(2, Some(10_000), "deploys");
    let rows = [
        (status(2, Some(10_000), "deploys"), false),
        (status(1, Some(10_000), "deploys"), true),
        (status(2, Some(10_000), "tests"), true),
        (status(2, Some(10_000), ""), true),
        (status(2, None, "deploys"), true),
        (status(2, Some(10_500), "deploys"), false),
        (status(2, Some(10_501), "deploys"), true),
        (status(2, Some(9_500), "deploys"), false),
        (status(2, Some(9_499), "deploys"), true),
    ];
    for (after, is_news) in rows {
        assert_eq!(after.is_news(&before), is_news, "{after:?}");
        assert_eq!(before.is_news(&after), is_news, "{after:?}");
    }
    let unknown = status(2, None, "");
    assert!(!unknown.is_news(&unknown));
}

#[tokio::test(start_paused = true)]
async fn what_is_seen_of_a_latch_is_true_for_those_who_waited_before_the_look() {
    let lines = Lines::new();
    let [first, second] = ["1", "2"].map(|by| lines.join("l", Goal::Latch, by));
    let begun = first.begin_look();
    let late = lines.join("l", Goal::Latch, "3");
    assert_eq!(first.seen(), None);
    while has_news(&first).await {}
    first.tell_seen(begun, 2);
    assert_eq!(
        [&first, &second, &late].map(QueueTicket::seen),
        [Some(2), Some(2), None]
    );
    assert!(has_news(&second).await && !has_news(&late).await);
    first.tell_seen(begun, 2);
    assert!(!has_news(&second).await, "it is no news");
    first.tell_seen(first.begin_look(), 0);
    assert_eq!(
        [&first, &second, &late].map(QueueTicket::seen),
        [Some(0); 3]
    );
    assert!(has_news(&second).await && has_news(&late).await);
}
