//! What replicas must know of: grants are undone, renewals do not count, releases do.

use lockkeeper_store::host::Replicas;
use tonic_types::StatusExt as _;

use crate::support::prelude::*;
use crate::support::several::{specs, try_all};

const AT_LEAST_1: Replicas = Replicas {
    at_least: 1,
    all: false,
};

/// A world in which so many replicas must know of everything, and none does until told otherwise.
async fn world(policy: Option<Replicas>) -> (World, Faults, Client) {
    let (faults, world) = World::faulty_with(&Options::with(|it| it.replica_acks = policy));
    let client = world.client(0).await;
    (world, faults, client)
}

fn wanting(min_replica_acks: u32) -> pb::TryAcquireRequest {
    try_request("a", "x").acked_by(min_replica_acks)
}

/// Holds of the lock, as the store has them.
fn fields(world: &World, name: &str) -> i64 {
    expect!(world.redis(&["HLEN", name]), Value::Int)
}

#[tokio::test(start_paused = true)]
async fn mission_22_a_grant_that_too_few_replicas_know_of_is_undone() {
    let (world, faults, mut client) = world(None).await;
    faults.set_replicas(1);
    let asked = Instant::now();
    let refused = client.try_with(wanting(2)).await.unwrap_err();
    assert_eq!(asked.elapsed(), Faults::REPLICA_ACK_TIMEOUT);
    assert_eq!(
        (refused.code(), reason(&refused)),
        (Code::Unavailable, "NOT_REPLICATED".into())
    );
    let details = refused.get_error_details();
    assert!(details.retry_info().is_some());
    let counts = &details.error_info().unwrap().metadata;
    assert_eq!(
        (counts["acknowledged"].as_str(), counts["required"].as_str()),
        ("1", "2")
    );
    assert_eq!(fields(&world, "a"), 0, "it is free when the answer comes");

    faults.set_replicas(3);
    let tried = client.try_with(wanting(2)).await.unwrap();
    assert_eq!(tried.grant.unwrap().replica_acks, 3);
    client.release("a", "x").await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_without_replicas_never_has_any() {
    let (world, mut client) = World::with_client().await;
    let refused = client.try_with(wanting(1)).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_REPLICATED");
    assert!(refused.message().contains("no replicas"), "{refused}");
    world.expect_nothing_left(&["a"]).await;
    let mut semaphore = Semaphore::new(&client, "s");
    semaphore.set(1).await;
    let wanting = semaphore.request("x", 1).acked_by(1);
    let mut call = semaphore.acquire(wanting).await.unwrap();
    assert_eq!(refusal(call.end().await), "NOT_REPLICATED");
}

#[tokio::test(start_paused = true)]
async fn the_policy_is_a_lower_bound_of_what_a_request_asks_for() {
    for (policy, min, replicas, granted) in [
        (None, 0, 0, true),
        (Some(AT_LEAST_1), 0, 0, false),
        (Some(AT_LEAST_1), 0, 1, true),
        (Some(AT_LEAST_1), 2, 1, false),
        (Some(AT_LEAST_1), 2, 2, true),
        (
            Some(Replicas {
                at_least: 3,
                all: false,
            }),
            1,
            2,
            false,
        ),
        (
            Some(Replicas {
                at_least: 1,
                all: true,
            }),
            0,
            0,
            false,
        ),
        (
            Some(Replicas {
                at_least: 1,
                all: true,
            }),
            0,
            5,
            true,
        ),
        (
            Some(Replicas {
                at_least: 1,
                all: true,
            }),
            6,
            5,
            false,
        ),
    ] {
        let (world, faults, mut client) = world(policy).await;
        faults.set_replicas(replicas);
        let tried = client.try_with(wanting(min)).await;
        let case = format!("{policy:?} {min} {replicas}");
        assert_eq!(tried.is_ok(), granted, "{case}");
        let waited = faults.replicas_waited_for();
        assert_eq!(waited > 0, policy.is_some() || min > 0, "{case}");
        assert_eq!(fields(&world, "a"), i64::from(granted), "{case}");
        if let Ok(tried) = tried {
            assert_eq!(tried.grant.unwrap().replica_acks, replicas, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_busy_is_not_waited_for() {
    let (_world, faults, mut client) = world(Some(AT_LEAST_1)).await;
    faults.set_replicas(1);
    client.try_with(wanting(0)).await.unwrap();
    let before = faults.replicas_waited_for();
    let other = wanting(0).by("y");
    assert!(!client.tries(other).await);
    assert!(client.release("a", "y").await.is_err());
    assert_eq!(faults.replicas_waited_for(), before);
}

#[tokio::test(start_paused = true)]
async fn in_every_mode_and_session_the_undo_is_exact() {
    for mode in [
        LockMode::Exclusive,
        LockMode::Fair,
        LockMode::Read,
        LockMode::Write,
    ] {
        let (world, _faults, mut client) = world(None).await;
        let mut session = client.open().await;
        let request = |min_replica_acks| {
            Request::Acquire(
                acquire_request("a", "")
                    .in_mode(mode)
                    .acked_by(min_replica_acks),
            )
        };
        // One that is free, then one that the owner holds already.
        for held in 0..2 {
            let op_id = session.send(request(1));
            assert_eq!(
                session.expect_failed(op_id).await,
                "NOT_REPLICATED",
                "{mode:?}"
            );
            let seen = client.describe("a").await;
            let holds: u32 = seen.holders.iter().map(|holder| holder.hold_count).sum();
            assert_eq!(holds, held, "{mode:?}");
            if held == 0 {
                let op_id = session.send(request(0));
                assert_eq!(session.expect_granted(op_id).await.hold_count, 1);
            }
        }
        session.close().await.unwrap();
        world.expect_nothing_left(&["a"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_of_the_request_is_a_new_attempt() {
    let (world, faults, mut client) = world(None).await;
    let request = wanting(1).with_id("r");
    for _ in 0..2 {
        let refused = client.try_with(request.clone()).await.unwrap_err();
        assert_eq!(reason(&refused), "NOT_REPLICATED");
        assert_eq!(fields(&world, "a"), 0);
    }
    faults.set_replicas(1);
    let first = client.take(request.clone()).await;
    let again = client.take(request).await;
    assert_eq!(first.fencing_token, again.fencing_token);
    assert_eq!((again.hold_count, again.replica_acks), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_and_the_next_waiter_is_told_to_try() {
    let (world, _faults, mut client) = world(None).await;
    client.try_acquire("a", "holder", secs(60)).await.unwrap();
    let wanting = acquire_request("a", "x").acked_by(1);
    let mut first = client.waits(wanting).await;
    let mut second = client.waits(acquire_request("a", "y")).await;
    client.release("a", "holder").await.unwrap();
    assert_eq!(refusal(first.end().await), "NOT_REPLICATED");
    let told = Instant::now();
    second.expect_granted().await;
    assert!(
        told.elapsed() < millis(100),
        "woken, not polled: {:?}",
        told.elapsed()
    );
    client.release("a", "y").await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn several_locks_are_undone_together_and_in_order() {
    for words in [["a", "b:read"], ["a:fair", "b:write"]] {
        let (world, faults, mut client) = world(Some(AT_LEAST_1)).await;
        let request = try_all(specs(&words), "x").acked_by(2);
        faults.set_replicas(1);
        let refused = client.try_all(request.clone()).await.unwrap_err();
        assert_eq!(reason(&refused), "NOT_REPLICATED");
        assert_eq!((fields(&world, "a"), fields(&world, "b")), (0, 0));
        faults.set_replicas(2);
        let tried = client.try_all(request).await.unwrap();
        assert!(
            tried.grants.iter().all(|grant| grant.replica_acks == 2),
            "{tried:?}"
        );
        assert_eq!(tried.grants.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn permits_are_given_back() {
    let (_world, faults, client) = world(Some(AT_LEAST_1)).await;
    let mut semaphore = Semaphore::new(&client, "s");
    semaphore.set(3).await;
    let refused = semaphore.try_acquire("x", 2, secs(60)).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_REPLICATED");
    faults.set_replicas(1);
    let tried = semaphore.try_acquire("x", 3, secs(60)).await.unwrap();
    let grant = tried.grant.unwrap();
    assert_eq!(grant.replica_acks, 1, "all three were free again");
    faults.set_replicas(0);
    let renewed = semaphore.renew("x", &grant.permit_ids, secs(60)).await;
    assert_eq!(reason(&renewed.unwrap_err()), "NOT_REPLICATED");
}

async fn expect_at_risk(session: &mut Session) {
    assert!(matches!(session.notice().await, Response::AtRisk(_)));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_too_few_replicas_know_of_does_not_count() {
    for (policy, min_replica_acks) in [(Some(AT_LEAST_1), 0), (None, 1)] {
        let (_world, faults, mut client) = world(policy).await;
        faults.set_replicas(1);
        let mut session = client.open().await;
        let wanting = acquire_request("a", "").acked_by(min_replica_acks);
        session.granted(wanting).await;
        faults.set_replicas(0);
        expect_at_risk(&mut session).await;
        faults.set_replicas(1);
        assert!(matches!(session.notice().await, Response::Recovered(_)));

        faults.set_replicas(0);
        expect_at_risk(&mut session).await;
        let lost = session.expect_lost().await;
        assert_eq!(
            lost.reason(),
            pb::LostReason::StoreUnreachable,
            "it is told although the master has it"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_not_held_up_by_one_that_needs_more() {
    let (_world, faults, mut client) = world(None).await;
    faults.set_replicas(1);
    let mut session = client.open().await;
    let wanting = acquire_request("careful", "").acked_by(1);
    session.granted(wanting).await;
    session.acquire("careless").await;
    faults.set_replicas(0);
    expect_at_risk(&mut session).await;
    let lost = session.expect_lost().await;
    assert_eq!(lost.grant.unwrap().name, "careful");
    tokio::time::sleep(secs(60)).await;
    assert!(session.release("careless").await.released);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_the_client_needs_them_too() {
    let (_world, faults, mut client) = world(Some(AT_LEAST_1)).await;
    faults.set_replicas(1);
    client.try_with(wanting(0)).await.unwrap();
    faults.set_replicas(0);
    let refused = client.renew("a", "x", secs(60)).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_REPLICATED");
    faults.set_replicas(2);
    let grant = client.renew("a", "x", secs(60)).await.unwrap();
    assert_eq!(
        (grant.replica_acks, std_duration(grant.lease)),
        (2, secs(60))
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_counts_whoever_knows_of_it() {
    let (world, faults, mut client) = world(Some(AT_LEAST_1)).await;
    faults.set_replicas(1);
    client.try_with(wanting(0)).await.unwrap();
    let mut session = client.open().await;
    session.acquire("b").await;
    faults.set_replicas(0);
    assert!(client.release("a", "x").await.unwrap().released);
    assert!(session.release("b").await.released);
    session.close().await.unwrap();
    world.expect_nothing_left(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_resumed_session_needs_them_as_well() {
    let (world, faults, mut client) = world(Some(AT_LEAST_1)).await;
    faults.set_replicas(1);
    let open = pb::OpenSession::default().lasting(secs(20));
    let mut session = client.open_with(open).await.unwrap();
    let grant = session.acquire("a").await;
    let opened = session.opened.clone();
    client.cut();
    faults.set_replicas(0);
    let mut again = world.client(0).await;
    let refused = again
        .resume(&opened, vec![grant.clone()])
        .await
        .err()
        .unwrap();
    assert_eq!(reason(&refused), "NOT_REPLICATED");
    faults.set_replicas(1);
    eventually("it is resumed", || {
        let (mut again, opened, grant) = (again.clone(), opened.clone(), grant.clone());
        async move { again.resume(&opened, vec![grant]).await.is_ok() }
    })
    .await;
}
