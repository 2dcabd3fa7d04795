//! How much one identity may have.

use lockkeeper_access::Quotas;
use tonic_types::StatusExt as _;

use super::{ALICE, MALLORY, world_with};
use crate::support::prelude::*;
use crate::{
    lock_watch::await_free,
    support::several::{release_all, specs, try_all},
};

fn assert_full<T>(answer: Result<T, Status>) {
    expect_refused(answer, Code::ResourceExhausted, "QUOTA_GRANTS");
}

/// A world with these quotas, and a client of each.
async fn with_quotas(change: impl FnOnce(&mut Quotas)) -> (World, Client, Client) {
    let mut quotas = Quotas::default();
    change(&mut quotas);
    let world = world_with(Vec::new(), quotas);
    let alice = world.client_as(0, ALICE).await;
    let mallory = world.client_as(0, MALLORY).await;
    (world, alice, mallory)
}

#[tokio::test(start_paused = true)]
async fn sessions_grants_and_waiters_are_counted_for_each_identity_and_given_back() {
    let (world, mut alice, mut mallory) = with_quotas(|it| {
        (it.sessions, it.grants, it.waiters) = (1, 2, 1);
    })
    .await;
    let mut session = alice.open().await;
    let refused = alice.open_with(pb::OpenSession::default()).await;
    expect_refused(refused, Code::ResourceExhausted, "QUOTA_SESSIONS");
    let mut others = mallory.open().await;

    session.acquire("a").await;
    session.acquire("b").await;
    let op_id = session.send_acquire("c", "");
    assert_eq!(session.expect_failed(op_id).await, "QUOTA_GRANTS");
    assert_eq!(session.acquire("a").await.hold_count, 2, "no new grant");
    session.release("a").await;
    session.release("a").await;
    session.acquire("c").await;

    others.waits_for("b", "").await;
    let op_id = others.send_acquire("c", "");
    assert_eq!(others.expect_failed(op_id).await, "QUOTA_WAITERS");
    let wait = mallory.acquire(acquire_request("b", "x")).await;
    let ended = wait.unwrap().end().await;
    expect_refused(ended, Code::ResourceExhausted, "QUOTA_WAITERS");
    // Sessionless waits count as well. A caller that may have no more grants cannot wait for one.
    session.release("c").await;
    let wait = alice.waits(acquire_request("b", "x")).await;
    let second = alice.acquire(acquire_request("b", "y")).await;
    let ended = second.unwrap().end().await;
    expect_refused(ended, Code::ResourceExhausted, "QUOTA_WAITERS");

    session.close().await.unwrap();
    drop(wait);
    eventually("the session is given back", || async {
        world.coordinator(0).load().sessions == 1
    })
    .await;
    let mut session = alice.open().await;
    session.acquire("d").await;
    session.acquire("e").await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_limited_over_rpcs_and_frames_together() {
    let (_world, mut alice, mut mallory) = with_quotas(|it| it.requests_per_second = 5).await;
    let mut session = alice.open().await;
    for _ in 0..2 {
        session.try_acquire(try_request("a", "")).await;
    }
    for _ in 0..2 {
        alice.try_acquire("b", "ci", secs(30)).await.unwrap();
    }
    // The rate is that of a real clock, which may have given one or two back on a slow machine.
    let mut refused = None;
    for _ in 0..100 {
        if let Err(status) = alice.try_acquire("b", "ci", secs(30)).await {
            refused = Some(status);
            break;
        }
    }
    let refused = refused.expect("five in a second and no more");
    let retry = refused.get_details_retry_info().unwrap().retry_delay;
    assert!(retry.is_some_and(|after| after <= secs(1)), "{retry:?}");
    let reason = "QUOTA_REQUESTS_PER_SECOND";
    expect_status(&refused, Code::ResourceExhausted, reason);
    let mut failed = 0;
    for _ in 0..20 {
        let op_id = session.send_release("a", "");
        failed += u32::from(matches!(session.end(op_id).await, Response::Failed(_)));
    }
    assert!(failed >= 10, "{failed} of 20");
    mallory.try_acquire("m", "ci", secs(30)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_permit_counts_as_a_grant() {
    let (_world, mut alice, _) = with_quotas(|it| it.grants = 5).await;
    let mut semaphore = Semaphore::new(&alice, "s");
    semaphore.set(100).await;
    let mut session = alice.open().await;
    let first = session.acquire_permits("s", 3).await;
    let op_id = session.send_acquire_permits("s", 3);
    assert_eq!(session.expect_failed(op_id).await, "QUOTA_GRANTS");
    session.acquire("a").await;
    session.acquire("b").await;
    let op_id = session.send_acquire("c", "");
    assert_eq!(session.expect_failed(op_id).await, "QUOTA_GRANTS");
    // What is given back of a grant may be taken again.
    session.release_permits("s", &first.permit_ids[..1]).await;
    session.acquire("c").await;
    session.release_permits("s", &first.permit_ids[1..]).await;
    let second = session.acquire_permits("s", 2).await;
    let op_id = session.send_acquire_permits("s", 1);
    assert_eq!(session.expect_failed(op_id).await, "QUOTA_GRANTS");
    session.release_permits("s", &second.permit_ids).await;
    session.acquire_permits("s", 1).await;
}

#[tokio::test(start_paused = true)]
async fn grants_without_a_session_count_until_they_are_released_or_over() {
    let (_world, mut alice, mut mallory) = with_quotas(|it| it.grants = 3).await;
    alice.try_acquire("a", "ci", secs(30)).await.unwrap();
    alice.try_acquire("b", "ci", secs(30)).await.unwrap();
    let mut semaphore = Semaphore::new(&alice, "s");
    semaphore.set(9).await;
    let permit = semaphore.take("ci", 1, secs(30)).await;
    assert_full(alice.try_acquire("c", "ci", secs(30)).await);
    let waited = alice.acquire(acquire_request("c", "ci")).await;
    assert_full(waited.unwrap().end().await);
    assert_full(semaphore.try_acquire("ci", 1, secs(30)).await);
    // Another hold of the same grant is no new one, and a part of the holds is no end.
    let again = alice.try_acquire("a", "ci", secs(30)).await.unwrap();
    assert_eq!(again.grant.unwrap().hold_count, 2);
    alice.release("a", "ci").await.unwrap();
    assert_full(alice.try_acquire("c", "ci", secs(30)).await);
    alice.release("a", "ci").await.unwrap();
    alice.try_acquire("c", "ci", secs(5)).await.unwrap();
    semaphore.release("ci", &permit.permit_ids).await.unwrap();
    alice.try_acquire("d", "ci", secs(20)).await.unwrap();
    assert_full(alice.try_acquire("e", "ci", secs(30)).await);
    tokio::time::sleep(secs(6)).await;
    alice.try_acquire("e", "ci", secs(30)).await.unwrap();
    // A renewed lease is over later.
    alice.renew("d", "ci", secs(60)).await.unwrap();
    tokio::time::sleep(secs(40)).await;
    alice.try_acquire("f", "ci", secs(30)).await.unwrap();
    alice.try_acquire("g", "ci", secs(30)).await.unwrap();
    assert_full(alice.try_acquire("h", "ci", secs(30)).await);
    mallory.try_acquire("m", "ci", secs(30)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn several_locks_without_a_session_count_each() {
    let (_world, mut alice, _) = with_quotas(|it| it.grants = 3).await;
    alice.try_acquire("a", "ci", secs(30)).await.unwrap();
    // One of them counts already.
    let all = try_all(specs(&["a", "b", "c"]), "ci");
    alice.try_all(all).await.unwrap();
    assert_full(alice.try_acquire("d", "ci", secs(30)).await);
    let both = release_all(specs(&["b", "c"]), "ci");
    alice.api.release_all(both).await.unwrap();
    assert_full(alice.try_all(try_all(specs(&["d", "e", "f"]), "ci")).await);
    alice
        .try_all(try_all(specs(&["d", "e"]), "ci"))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_identity_has_a_share_of_the_waiters_of_one_lock() {
    let (world, mut alice, mut mallory) = with_quotas(|it| it.waiters_per_lock = 2).await;
    mallory.try_acquire("a", "x", secs(60)).await.unwrap();
    mallory.try_acquire("b", "x", secs(60)).await.unwrap();
    let mut waits = Vec::new();
    for owner in ["1", "2"] {
        waits.push(alice.waits(acquire_request("a", owner)).await);
    }
    let third = alice.acquire(acquire_request("a", "3")).await;
    let ended = third.unwrap().end().await;
    expect_refused(ended, Code::ResourceExhausted, "QUOTA_WAITERS_PER_LOCK");
    waits.push(alice.waits(acquire_request("b", "3")).await);
    waits.push(mallory.waits(acquire_request("a", "y")).await);
    drop(waits.remove(0));
    eventually("the place is free", || async {
        world.coordinator(0).load().waiters == 3
    })
    .await;
    alice.waits(acquire_request("a", "3")).await;
}

#[tokio::test(start_paused = true)]
async fn an_identity_has_a_share_of_the_waits_until_a_lock_is_free() {
    let (_world, mut alice, mut mallory) = with_quotas(|it| it.waiters_per_lock = 2).await;
    mallory.try_acquire("a", "x", secs(60)).await.unwrap();
    let free = || pb::AwaitFreeRequest::named("a");
    let mut waits = Vec::new();
    for client in [&mut alice, &mut mallory] {
        for _ in 0..2 {
            let mut call = await_free(client, free()).await.unwrap();
            call.expect_waiting().await;
            waits.push(call);
        }
        let mut third = await_free(client, free()).await.unwrap();
        let ended = third.next().await;
        expect_refused(ended, Code::ResourceExhausted, "QUOTA_WAITERS_PER_LOCK");
    }
    mallory.release("a", "x").await.unwrap();
    for call in &mut waits {
        call.expect_free().await;
    }
    mallory.try_acquire("a", "x", secs(60)).await.unwrap();
    let mut again = await_free(&mut alice, free()).await.unwrap();
    again.expect_waiting().await;
}

#[tokio::test(start_paused = true)]
async fn streams_that_a_client_leaves_open_are_counted() {
    let (_world, mut alice, mut mallory) = with_quotas(|it| it.streams = 2).await;
    let first = alice.open().await;
    let second = alice.open().await;
    let refused = alice.open_with(pb::OpenSession::default()).await;
    expect_refused(refused, Code::ResourceExhausted, "QUOTA_STREAMS");
    mallory.open().await;
    // Other calls are not streams.
    alice.try_acquire("a", "ci", secs(30)).await.unwrap();
    second.close().await.unwrap();
    first.close().await.unwrap();
    eventually("the streams are over", || {
        let mut alice = alice.clone();
        async move { alice.open_with(pb::OpenSession::default()).await.is_ok() }
    })
    .await;
}

/// A grant that was acquired again since is still held.
#[tokio::test(start_paused = true)]
async fn a_repeated_release_gives_nothing_back_a_second_time() {
    let (_world, mut alice, _) = with_quotas(|it| it.grants = 1).await;
    for together in [false, true] {
        let name = if together { "a" } else { "b" };
        for _ in 0..2 {
            alice.take_for(name, "ci", secs(60)).await;
            assert_full(alice.try_acquire("other", "ci", secs(60)).await);
            if together {
                let mut all = release_all(specs(&[name]), "ci");
                all.request_id = "once".to_owned();
                alice.api.release_all(all).await.unwrap();
            } else {
                let one = pb::ReleaseRequest::named(name).by("ci").with_id("once");
                alice.release_with(one).await.unwrap();
            }
        }
        assert_eq!(alice.holders(name).await, ["ci"], "it is held again");
        assert_full(alice.try_acquire("other", "ci", secs(60)).await);
        alice.release(name, "ci").await.unwrap();
    }
}
