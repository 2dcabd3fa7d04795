//! What a wait for several locks, and a release of several, leave as it is.

use lockkeeper_access::Quotas;
use lockkeeper_coordinator::{Watched, What};

use super::{Call, all, back, names, specs, take, try_all};
use crate::access::access;
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn what_was_taken_outlasts_a_short_absence_of_the_store() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    client.try_acquire("c", "y", secs(600)).await.unwrap();
    let request = all(&["a", "c:fair"], "x", secs(600)).lasting(secs(6));
    let mut call = Call::start(&mut client, request).await;
    assert_eq!(call.expect_waiting().await, "c");
    let token = client.describe("a").await.last_fencing_token;
    // Between two of its attempts, which come once a second, so that one of them fails.
    tokio::time::sleep(millis(1500)).await;
    faults.set_unavailable(true);
    tokio::time::sleep(secs(1)).await;
    faults.set_unavailable(false);
    tokio::time::sleep(secs(30)).await;
    let a = client.describe("a").await;
    assert_eq!((a.holders.len(), a.last_fencing_token), (1, token));
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_several_locks_is_no_short_operation_of_its_session() {
    let world = World::with(&Options::with(|it| it.operations_per_session_max = 2));
    let mut client = world.client(0).await;
    client.try_acquire("c", "y", secs(600)).await.unwrap();
    let mut session = client.open().await;
    for words in [["a", "c:fair"], ["b", "c:fair"], ["d", "c"]] {
        session.send(Request::AcquireAll(all(&words, "", secs(600))));
    }
    world.until_waiting(0, 3).await;
    let other = session.try_acquire(try_request("other", ""));
    let other = tokio::time::timeout(secs(5), other).await;
    assert!(other.unwrap().acquired);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_several_locks_counts_against_the_quota_of_its_caller() {
    for words in [["a", "c:fair"], ["a", "c"]] {
        let quotas = Quotas {
            waiters: 1,
            ..Quotas::default()
        };
        let world = World::with(&Options::with(|it| it.access = access(Vec::new(), quotas)));
        let mut holder = world.client_as(0, "holder").await;
        holder.try_acquire("c", "y", secs(600)).await.unwrap();
        let mut alice = world.client_as(0, "alice").await;
        let mut first = Call::start(&mut alice, all(&words, "x", secs(600))).await;
        first.expect_waiting().await;
        let mut second = Call::start(&mut alice, all(&words, "z", secs(600))).await;
        expect_refused(second.end().await, Code::ResourceExhausted, "QUOTA_WAITERS");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_behind_several_locks_hears_of_their_holder() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("a", "y", secs(600)).await.unwrap();
    let request = all(&["a", "b"], "x", secs(600)).noted(pb::Note {
        reason: "both of them".to_owned(),
        ..pb::Note::default()
    });
    let mut both = Call::start(&mut client, request).await;
    both.expect_waiting().await;
    let behind = crate::support::client::acquire_request("a", "z");
    let mut behind = client.waits(behind).await;
    client.release("a", "y").await.unwrap();
    both.expect_granted().await;
    let told = async {
        loop {
            let waiting = behind.expect_waiting().await;
            if let Some(note) = waiting.holder_note {
                return note.reason;
            }
        }
    };
    let told = tokio::time::timeout(secs(20), told).await;
    assert_eq!(told.unwrap(), "both of them");
    drop(world);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_an_acquire_is_no_event() {
    let (world, mut client) = World::with_client().await;
    let mut watcher = world.coordinator(0).watch(String::new()).unwrap();
    let request = || try_all(&["a", "b"], "x").with_id("once");
    for _ in 0..2 {
        assert!(client.try_all(request()).await.unwrap().acquired);
    }
    client.take_for("end", "x", secs(60)).await;
    let mut granted = Vec::new();
    while granted.last().is_none_or(|last| last != "end") {
        if let Ok(Watched::Delta(event)) = watcher.next().await {
            assert_eq!(event.what, What::Granted);
            granted.push(event.name.to_string());
        }
    }
    assert_eq!(granted, ["a", "b", "end"]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_crosses_a_release_of_several_locks_is_no_loss() {
    let (faults, _world, mut client) = World::faulty_with_client().await;
    let mut session = client.open().await;
    take(&mut session, &["a", "b"]).await;
    tokio::time::sleep(millis(9800)).await;
    faults.set_answer_delay(millis(500));
    session.give_all_back(&specs(&["a", "b"])).await;
    let notice = tokio::time::timeout(secs(60), session.notice()).await;
    assert!(notice.is_err(), "{notice:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_the_store_has_lost_is_told_as_lost_when_it_is_released_with_others() {
    let (world, _client, mut session) = World::with_session().await;
    take(&mut session, &["a", "b"]).await;
    world.redis(&["DEL", "a"]);
    let released = session.release_all(&specs(&["a", "b"])).await;
    let held: Vec<_> = released.locks.iter().map(|lock| lock.held).collect();
    assert_eq!(held, [false, true]);
    let lost = tokio::time::timeout(secs(1), session.expect_lost()).await;
    assert_eq!(lost.unwrap().grant.unwrap().name, "a");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_release_of_several_locks_leaves_what_was_taken_since() {
    let (world, _client, mut session) = World::with_session().await;
    take(&mut session, &["b"]).await;
    let release = async |session: &mut crate::support::client::Session| {
        let request = back(&["a", "b"], "").with_id("once");
        let op = session.send(Request::ReleaseAll(request));
        let released = expect!(session.answer(op).await, Response::ReleasedAll);
        let held = released.locks.iter().map(|lock| lock.held);
        held.collect::<Vec<_>>()
    };
    assert_eq!(release(&mut session).await, [false, true]);
    let grants = take(&mut session, &["a", "b"]).await;
    assert_eq!(names(&grants), ["a", "b"]);
    assert_eq!(release(&mut session).await, [false, true]);
    tokio::time::sleep(secs(100)).await;
    assert_eq!(world.coordinator(0).load().deadlines, 2, "it holds both");
    assert_eq!(world.redis(&["EXISTS", "a", "b"]), Value::Int(2));
    let notice = tokio::time::timeout(secs(1), session.notice()).await;
    assert!(notice.is_err(), "{notice:?}");
}
