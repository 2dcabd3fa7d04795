//! Taking, taking again, giving back.

use lockkeeper_api::pb;
use lockkeeper_store::host::Value;

use crate::support::{
    World,
    client::{proto, std_duration, try_request},
    eventually, millis, reason, secs,
};

#[tokio::test(start_paused = true)]
async fn mission_1_one_holder_at_any_time() {
    let world = World::new();
    let mut client = world.client(0).await;
    assert!(client.gets_for("a", "x", secs(10)).await);
    let refused = client.try_acquire("a", "y", secs(10)).await.unwrap();
    assert!(!refused.acquired && refused.grant.is_none());
    assert_eq!(std_duration(refused.holder_remaining_lease), secs(10));
    assert!(
        client.gets_for("b", "y", secs(10)).await,
        "another name is free"
    );
}

#[tokio::test(start_paused = true)]
async fn mission_2_a_crashed_holder_frees_the_lock_by_its_time_to_live() {
    let world = World::new();
    let mut client = world.client(0).await;
    client.try_acquire("a", "x", secs(3)).await.unwrap();
    client.cut();
    let mut other = world.client(0).await;
    tokio::time::advance(millis(2900)).await;
    assert!(!other.gets_for("a", "y", secs(3)).await);
    tokio::time::advance(millis(101)).await;
    assert!(other.gets_for("a", "y", secs(3)).await);
}

#[tokio::test(start_paused = true)]
async fn mission_3_and_8_only_the_holder_releases_and_others_are_told_why_not() {
    let world = World::new();
    let mut client = world.client(0).await;
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
        assert_eq!(status.code(), tonic::Code::FailedPrecondition);
        assert_eq!(reason(&status), "NOT_OWNER");
        assert_eq!(
            status.get_details_error_info().unwrap().metadata["state"],
            state
        );
    }
}

#[tokio::test(start_paused = true)]
async fn mission_4_the_lease_is_renewed_while_the_work_goes_on() {
    let world = World::new();
    let mut client = world.client(0).await;
    let taken = client.take_for("a", "x", secs(3)).await;
    for _ in 0..5 {
        tokio::time::advance(secs(2)).await;
        let renewed = client.renew("a", "x", secs(3)).await.unwrap();
        assert_eq!(renewed.fencing_token, taken.fencing_token);
        assert_eq!(std_duration(renewed.lease), secs(3));
        assert!(std_duration(renewed.valid_for) < secs(3));
    }
    let longer = client.renew("a", "x", secs(60)).await.unwrap();
    let shorter = client.renew("a", "x", secs(1)).await.unwrap();
    assert_eq!(
        std_duration(shorter.lease),
        std_duration(longer.lease),
        "a renewal never shortens"
    );
    tokio::time::advance(secs(61)).await;
    assert_eq!(
        reason(&client.renew("a", "x", secs(3)).await.unwrap_err()),
        "NOT_OWNER"
    );
}

#[tokio::test(start_paused = true)]
async fn mission_6_one_hash_per_lock_as_redisson_has_it() {
    let world = World::new();
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    let grant = session.acquire_as("a", "worker").await;
    let field = format!("{}:worker", session.id());
    assert_eq!(grant.owner, "worker");
    let text = |text: &str| Value::Bytes(text.to_owned().into());
    assert_eq!(
        world.redis(&["HGETALL", "a"]),
        Value::Array(vec![text(&field), text("1")])
    );
    assert_eq!(world.redis(&["PTTL", "a"]), Value::Int(30_000));
    session.acquire_as("a", "worker").await;
    assert_eq!(world.redis(&["HGET", "a", &field]), text("2"));
    let refused = client.try_acquire("a", "y", secs(1)).await.unwrap();
    assert_eq!(std_duration(refused.holder_remaining_lease), secs(30));
}

#[tokio::test(start_paused = true)]
async fn mission_7_holds_are_counted_and_the_last_release_frees() {
    let world = World::new();
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    let first = session.acquire("a").await;
    let second = session.acquire("a").await;
    assert_eq!((first.hold_count, second.hold_count), (1, 2));
    assert_eq!(
        first.fencing_token, second.fencing_token,
        "taking it again keeps the token"
    );
    tokio::time::advance(secs(5)).await;
    let between = session.release("a").await;
    assert_eq!((between.released, between.hold_count), (false, 1));
    assert_eq!(
        world.redis(&["PTTL", "a"]),
        Value::Int(30_000),
        "the time to live is fresh"
    );
    let last = session.release("a").await;
    assert_eq!((last.released, last.hold_count), (true, 0));
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(0));
    let again = session.acquire("a").await;
    assert!(again.fencing_token > first.fencing_token);
}

#[tokio::test(start_paused = true)]
async fn mission_9_four_ways_to_take_it() {
    let world = World::new();
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    let without_limit = session.acquire("a").await;
    assert!(without_limit.watched);
    let fixed = pb::AcquireRequest {
        lease: Some(proto(secs(4))),
        ..acquire("b", &session.id())
    };
    let fixed = client.granted(fixed).await;
    assert!(!fixed.watched);
    assert_eq!(std_duration(fixed.lease), secs(4));
    assert!(session.try_acquire(try_request("c", "")).await.acquired);
    for lease in [None, Some(proto(secs(4)))] {
        let wait_timeout = Some(proto(secs(2)));
        let timed = pb::AcquireRequest {
            wait_timeout,
            lease,
            ..acquire("d", &session.id())
        };
        client.granted(timed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn mission_27_reentrancy_with_a_lease() {
    let world = World::new();
    let mut client = world.client(0).await;
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
    let world = World::new();
    let mut client = world.client(0).await;
    let grant = client.take(try_request("a", "")).await;
    assert!(!grant.owner.is_empty());
    assert_eq!(std_duration(grant.lease), secs(30), "the default lease");
    assert!(!grant.watched);
    assert!(client.release("a", &grant.owner).await.unwrap().released);
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_through_expiry_and_are_checked() {
    let world = World::new();
    let mut client = world.client(0).await;
    let mut last = 0;
    for round in 0..5 {
        let owner = format!("o{round}");
        let grant = client.take_for("a", &owner, secs(1)).await;
        assert!(grant.fencing_token > last);
        let check = |token| pb::CheckTokenRequest {
            name: "a".to_owned(),
            fencing_token: token,
        };
        let mut checked = async |token| {
            client
                .api
                .check_token(check(token))
                .await
                .unwrap()
                .into_inner()
        };
        assert!(checked(grant.fencing_token).await.current);
        let stale = checked(last).await;
        assert!(!stale.current && stale.held);
        assert_eq!(stale.last_fencing_token, grant.fencing_token);
        last = grant.fencing_token;
        tokio::time::advance(millis(1001)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn describe_shows_holders_and_waiters_but_no_session_ids() {
    let world = World::new();
    let mut client = world.client(0).await;
    let open = |name: &str| pb::OpenSession {
        client_name: name.to_owned(),
        ..Default::default()
    };
    let mut holder = client.open_with(open("holder")).await.unwrap();
    let mut waiter = client.open_with(open("waiter")).await.unwrap();
    let grant = holder.acquire_as("a", "h").await;
    waiter.send_acquire("a", "w1");
    waiter.send_acquire("a", "w2");
    eventually("two wait", || async {
        world.coordinator(0).load().waiters == 2
    })
    .await;
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

fn acquire(name: &str, session: &str) -> pb::AcquireRequest {
    pb::AcquireRequest {
        name: name.to_owned(),
        session_id: session.to_owned(),
        ..Default::default()
    }
}
