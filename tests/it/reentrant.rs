//! Taking, taking again, giving back.

use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn mission_3_and_8_only_the_holder_releases_and_others_are_told_why_not() {
    let (_world, mut client) = World::with_client().await;
    let never = client.release("a", "x").await.unwrap_err();
    client.try_acquire("a", "x", secs(3)).await.unwrap();
    let stranger = client.release("a", "y").await.unwrap_err();
    assert_eq!(
        client.describe("a").await.holders.len(),
        1,
        "nothing changed"
    );
    tokio::time::advance(millis(3001)).await;
    let expired = client.release("a", "x").await.unwrap_err();
    for (status, state) in [
        (never, "never_held"),
        (stranger, "held_by_another"),
        (expired, "expired"),
    ] {
        use tonic_types::StatusExt as _;
        expect_status(&status, tonic::Code::FailedPrecondition, "NOT_OWNER");
        assert_eq!(
            status.get_details_error_info().unwrap().metadata["state"],
            state
        );
    }
}

#[tokio::test(start_paused = true)]
async fn mission_27_reentrancy_with_a_lease() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(10)).await.unwrap();
    let again = client.take_for("a", "x", secs(2)).await;
    assert_eq!(again.hold_count, 2);
    assert_eq!(
        std_duration(again.lease),
        secs(10),
        "a shorter lease does not cut the longer one"
    );
    let longer = client.take_for("a", "x", secs(20)).await;
    assert_eq!(std_duration(longer.lease), secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_sessionless_caller_without_an_owner_is_given_one() {
    let (world, mut client) = World::with_client().await;
    let grant = client.take(try_request("a", "")).await;
    assert!(!grant.owner.is_empty());
    assert_eq!(std_duration(grant.lease), secs(30), "the default lease");
    assert!(!grant.watched);
    assert!(client.release("a", &grant.owner).await.unwrap().released);
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_through_expiry_and_are_checked() {
    let (_world, mut client) = World::with_client().await;
    let mut last = 0;
    for round in 0..5 {
        let owner = format!("o{round}");
        let grant = client.take_for("a", &owner, secs(1)).await;
        assert!(grant.fencing_token > last);
        assert!(client.check_token("a", grant.fencing_token).await.current);
        let stale = client.check_token("a", last).await;
        assert!(!stale.current && stale.held);
        assert_eq!(stale.last_fencing_token, grant.fencing_token);
        last = grant.fencing_token;
        tokio::time::advance(millis(1001)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn describe_shows_holders_and_waiters_but_no_session_ids() {
    let (world, mut client) = World::with_client().await;
    let open = |name: &str| pb::OpenSession::default().called(name);
    let mut holder = client.open_with(open("holder")).await.unwrap();
    let mut waiter = client.open_with(open("waiter")).await.unwrap();
    let grant = holder.acquire_as("a", "h").await;
    waiter.send_acquire("a", "w1");
    waiter.send_acquire("a", "w2");
    world.until_waiting(0, 2).await;
    let seen = client.describe("a").await;
    assert_eq!(seen.last_fencing_token, grant.fencing_token);
    assert_eq!(seen.mode(), pb::LockMode::Exclusive);
    assert_eq!(
        (
            seen.holders[0].owner.as_str(),
            seen.holders[0].client_name.as_str()
        ),
        ("h", "holder")
    );
    assert_eq!(seen.waiter_count, 2);
    let order: Vec<_> = seen
        .waiters
        .iter()
        .map(|w| (w.position, w.owner.as_str(), w.client_name.as_str()))
        .collect();
    assert_eq!(order, [(1, "w1", "waiter"), (2, "w2", "waiter")]);
    assert!(
        !format!("{seen:?}").contains(&holder.id()),
        "an id is a credential"
    );
    let free = client.describe("free").await;
    assert_eq!(
        (
            free.holders.len(),
            free.remaining_lease,
            free.last_fencing_token
        ),
        (0, None, 0)
    );
}
