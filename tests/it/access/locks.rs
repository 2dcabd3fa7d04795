//! `LockService`, RPC by RPC: another identity that knows the session's id, or guesses the owner,
//! gets nowhere.

use lockkeeper_api::pb::{self, LockMode, session_request::Request};
use lockkeeper_testkit::prelude::*;
use tonic::Status;

use super::{assert_no_session, assert_not_owner, both};
use crate::support::{
    client::{Client, Session, acquire_request, try_request},
    expect, secs,
};

fn release_request(name: &str, session: &str, owner: &str) -> pb::ReleaseRequest {
    pb::ReleaseRequest::named(name)
        .of_session(session)
        .by(owner)
}

fn renew_request(name: &str, session: &str, owner: &str) -> pb::RenewRequest {
    pb::RenewRequest::named(name)
        .of_session(session)
        .by(owner)
        .lasting(secs(60))
}

fn spec(name: &str) -> pb::LockSpec {
    pb::LockSpec {
        name: name.to_owned(),
        mode: LockMode::Exclusive.into(),
    }
}

async fn released(client: &mut Client, request: pb::ReleaseRequest) -> Result<u32, Status> {
    Ok(client.api.release(request).await?.into_inner().hold_count)
}

/// The session holds the lock as before, once.
async fn assert_held_once(mut session: Session, name: &str) {
    let released = session.release(name).await;
    assert!(released.released, "{released:?}");
}

#[tokio::test(start_paused = true)]
async fn release_with_anothers_session_or_owner_is_refused() {
    let (_world, mut alice, mut mallory) = both().await;
    let mut session = alice.open().await;
    session.acquire("a").await;
    alice.try_acquire("b", "ci", secs(30)).await.unwrap();
    assert_no_session(released(&mut mallory, release_request("a", &session.id(), "")).await);
    assert_not_owner(released(&mut mallory, release_request("b", "", "ci")).await);
    let left = released(&mut alice, release_request("b", "", "ci")).await;
    assert_eq!(left.unwrap(), 0);
    assert_held_once(session, "a").await;
}

#[tokio::test(start_paused = true)]
async fn the_owner_as_it_stands_in_the_store_helps_nobody() {
    let (world, mut alice, mut mallory) = both().await;
    let mut session = alice.open().await;
    session.acquire("a").await;
    alice.try_acquire("b", "ci", secs(30)).await.unwrap();
    for name in ["a", "b"] {
        let fields = world.redis(&["HGETALL", name]);
        let fields = expect!(fields, lockkeeper_store::host::Value::Array);
        let field = expect!(&fields[0], lockkeeper_store::host::Value::Bytes);
        let field = std::str::from_utf8(field).unwrap().to_owned();
        assert_not_owner(released(&mut mallory, release_request(name, "", &field)).await);
    }
    assert_held_once(session, "a").await;
}

#[tokio::test(start_paused = true)]
async fn renew_with_anothers_session_or_owner_is_refused() {
    let (_world, mut alice, mut mallory) = both().await;
    let mut session = alice.open().await;
    session.acquire("a").await;
    alice.try_acquire("b", "ci", secs(30)).await.unwrap();
    let renew = mallory.api.renew(renew_request("a", &session.id(), ""));
    assert_no_session(renew.await);
    assert_not_owner(mallory.api.renew(renew_request("b", "", "ci")).await);
    let renewed = alice.api.renew(renew_request("b", "", "ci")).await.unwrap();
    assert_eq!(renewed.into_inner().grant.unwrap().owner, "ci");
}

#[tokio::test(start_paused = true)]
async fn acquire_and_try_acquire_with_anothers_session_add_no_hold() {
    let (_world, mut alice, mut mallory) = both().await;
    let mut session = alice.open().await;
    session.acquire("a").await;
    let try_it = try_request("a", "").of_session(session.id());
    assert_no_session(mallory.api.try_acquire(try_it).await);
    let wait = acquire_request("a", "").of_session(session.id());
    assert_no_session(mallory.acquire(wait).await);
    assert_held_once(session, "a").await;
}

#[tokio::test(start_paused = true)]
async fn the_same_owner_of_another_identity_is_another_owner() {
    let (_world, mut alice, mut mallory) = both().await;
    let held = alice.try_acquire("a", "ci", secs(30)).await.unwrap();
    assert!(held.acquired);
    let tried = mallory.try_acquire("a", "ci", secs(30)).await.unwrap();
    assert!(!tried.acquired, "a reentrant hold would make it two owners");
    let again = alice.try_acquire("a", "ci", secs(30)).await.unwrap();
    assert_eq!(again.grant.unwrap().hold_count, 2);
}

#[tokio::test(start_paused = true)]
async fn several_at_once_with_anothers_session_or_owner_are_refused() {
    let (_world, mut alice, mut mallory) = both().await;
    let mut session = alice.open().await;
    session.acquire("a").await;
    alice.try_acquire("b", "ci", secs(30)).await.unwrap();
    let (session_id, locks) = (session.id(), vec![spec("a")]);
    let wait = pb::AcquireAllRequest {
        locks: locks.clone(),
        session_id: session_id.clone(),
        ..Default::default()
    };
    assert_no_session(mallory.api.acquire_all(wait).await);
    let try_it = pb::TryAcquireAllRequest {
        locks: locks.clone(),
        session_id: session_id.clone(),
        ..Default::default()
    };
    assert_no_session(mallory.api.try_acquire_all(try_it).await);
    let release = pb::ReleaseAllRequest {
        locks,
        session_id,
        ..Default::default()
    };
    assert_no_session(mallory.api.release_all(release).await);
    let release = pb::ReleaseAllRequest {
        locks: vec![spec("b")],
        owner: "ci".to_owned(),
        ..Default::default()
    };
    assert_not_owner(mallory.api.release_all(release).await);
    let left = released(&mut alice, release_request("b", "", "ci")).await;
    assert_eq!(left.unwrap(), 0);
    assert_held_once(session, "a").await;
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
    let describe = pb::DescribeRequest {
        name: "a".to_owned(),
    };
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
