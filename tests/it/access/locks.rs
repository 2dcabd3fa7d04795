//! `LockService`, RPC by RPC: another identity that knows the session's id, or guesses the owner,
//! gets nowhere.

use super::{assert_no_session, assert_not_owner, both};
use crate::support::prelude::*;
use crate::support::several::{release_all, specs};

/// The session holds the lock as before, once.
async fn assert_held_once(mut session: Session, name: &str) {
    let released = session.release(name).await;
    assert!(released.released, "{released:?}");
}

/// `matrix.rs` has every call with the session of another; here it holds what they are about.
#[tokio::test(start_paused = true)]
async fn what_a_session_holds_is_out_of_reach_for_others_that_know_its_id() {
    let (_world, mut alice, mut mallory) = both().await;
    let mut session = alice.open().await;
    session.acquire("a").await;
    let id = session.id();
    let try_it = try_request("a", "").of_session(&id);
    assert_no_session(mallory.try_with(try_it).await);
    let wait = acquire_request("a", "").of_session(&id);
    assert_no_session(mallory.acquire(wait).await);
    let renew = pb::RenewRequest::named("a").of_session(&id);
    assert_no_session(mallory.api.renew(renew.lasting(secs(60))).await);
    let release = pb::ReleaseRequest::named("a").of_session(&id);
    assert_no_session(mallory.release_with(release).await);
    let release = release_all(specs(&["a"]), "").of_session(&id);
    assert_no_session(mallory.api.release_all(release).await);
    assert_held_once(session, "a").await;
}

#[tokio::test(start_paused = true)]
async fn what_an_owner_holds_is_out_of_reach_for_others_that_know_its_name() {
    let (_world, mut alice, mut mallory) = both().await;
    alice.take_for("b", "ci", secs(30)).await;
    assert_not_owner(mallory.renew("b", "ci", secs(60)).await);
    assert_not_owner(mallory.release("b", "ci").await);
    let release = release_all(specs(&["b"]), "ci");
    assert_not_owner(mallory.api.release_all(release).await);
    assert_eq!(alice.renew("b", "ci", secs(60)).await.unwrap().owner, "ci");
    assert!(alice.release("b", "ci").await.unwrap().released);
}

#[tokio::test(start_paused = true)]
async fn the_owner_as_it_stands_in_the_store_helps_nobody() {
    let (world, mut alice, mut mallory) = both().await;
    let mut session = alice.open().await;
    session.acquire("a").await;
    alice.try_acquire("b", "ci", secs(30)).await.unwrap();
    for name in ["a", "b"] {
        let fields = world.redis(&["HGETALL", name]);
        let fields = expect!(fields, Value::Array);
        let field = expect!(&fields[0], Value::Bytes);
        let field = std::str::from_utf8(field).unwrap().to_owned();
        assert_not_owner(mallory.release(name, &field).await);
    }
    assert_held_once(session, "a").await;
}

#[tokio::test(start_paused = true)]
async fn the_same_owner_of_another_identity_is_another_owner() {
    let (_world, mut alice, mut mallory) = both().await;
    assert!(alice.gets_for("a", "ci", secs(30)).await);
    let tried = mallory.try_acquire("a", "ci", secs(30)).await.unwrap();
    assert!(!tried.acquired, "a reentrant hold would make it two owners");
    let again = alice.try_acquire("a", "ci", secs(30)).await.unwrap();
    assert_eq!(again.grant.unwrap().hold_count, 2);
}

#[tokio::test(start_paused = true)]
async fn describe_shows_owners_of_others_as_digests_and_ones_own_in_full() {
    let (_world, mut alice, mut mallory) = both().await;
    let mut session = alice.open().await;
    session.acquire_as("a", "worker-7").await;
    alice.try_acquire("b", "ci", secs(30)).await.unwrap();
    let _waits = alice.waits(acquire_request("b", "next")).await;

    for (name, owner) in [("a", "worker-7"), ("b", "ci")] {
        assert_eq!(alice.describe(name).await.holders[0].owner, owner);
        let seen = mallory.describe(name).await;
        assert_eq!(seen.holders.len(), 1);
        assert_digest(&seen.holders[0].owner);
    }
    assert_eq!(alice.describe("b").await.waiters[0].owner, "next");
    let seen = mallory.describe("b").await;
    assert_digest(&seen.waiters[0].owner);
    assert_ne!(seen.waiters[0].owner, seen.holders[0].owner);

    let mut own = mallory.open().await;
    let describe = pb::DescribeRequest::named("a");
    let op_id = own.send(Request::Describe(describe));
    let answer = own.end(op_id).await;
    let seen = expect!(answer, pb::session_response::Response::Described);
    assert_digest(&seen.holders[0].owner);
}

#[track_caller]
pub(super) fn assert_digest(owner: &str) {
    let is_hex = owner.bytes().all(|it| it.is_ascii_hexdigit());
    assert!(owner.len() == 16 && is_hex, "{owner}");
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_anothers_request_is_told_to_nobody() {
    let (_world, mut alice, mut mallory) = both().await;
    let request = try_request("a", "").with_id("r1");
    let first = alice.api.try_acquire(request.clone()).await.unwrap();
    assert!(first.into_inner().acquired);
    let tried = mallory.api.try_acquire(request.clone()).await.unwrap();
    let tried = tried.into_inner();
    assert!(!tried.acquired && tried.grant.is_none(), "{tried:?}");
    let again = alice.try_with(request).await.unwrap();
    assert_eq!(
        again.grant.unwrap().hold_count,
        1,
        "a repeat, no second hold"
    );
}
