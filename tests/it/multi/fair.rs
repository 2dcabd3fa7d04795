//! With a fair lock among them, locks are taken one after the other in the order of names, because
//! a place in a queue is what gets it.

use super::{Call, all, back, expect_free, holders, names, released, tried, try_all};
use crate::support::prelude::*;

fn single(name: &str, owner: &str) -> pb::AcquireRequest {
    acquire_request(name, owner).in_mode(pb::LockMode::Fair)
}

#[tokio::test(start_paused = true)]
async fn a_call_keeps_its_place_in_the_queue_of_a_fair_lock() {
    let (_world, mut near, mut far) = World::two_with_clients().await;
    let mut holder = near.acquire(single("f", "h")).await.unwrap();
    holder.expect_granted().await;
    let mut first = near.waits(single("f", "1")).await;
    let mut second = Call::start(&mut far, all(&["f:fair", "a", "z:write"], "2", secs(60))).await;
    assert_eq!(second.expect_waiting().await, "f");
    let mut third = near.waits(single("f", "3")).await;
    assert_eq!(
        holders(&mut near, "a").await,
        ["2=1"],
        "what comes before is held"
    );
    assert!(holders(&mut near, "z").await.is_empty());
    let release = |owner: &'static str| {
        pb::ReleaseRequest::named("f")
            .by(owner)
            .in_mode(pb::LockMode::Fair)
    };
    near.api.release(release("h")).await.unwrap();
    first.expect_granted().await;
    near.api.release(release("1")).await.unwrap();
    assert_eq!(names(&second.expect_granted().await), ["a", "f", "z"]);
    let words = ["a", "f:fair", "z:write"];
    let given = released(&mut far, back(&words, "2")).await;
    assert_eq!(given, ["a=0", "f=0", "z=0"]);
    third.expect_granted().await;
}

#[tokio::test(start_paused = true)]
async fn mission_19_what_was_taken_is_given_back_when_one_fails() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    client.try_acquire("m", "y", secs(60)).await.unwrap();
    for (words, undo) in [
        (["a:fair", "m", "z"], "fair_undo"),
        (["a", "m:fair", "z"], "lock_undo"),
    ] {
        // The store learns of it only with the second call.
        faults.lose_requests(undo, 1);
        let refused = tried(&mut client, try_all(&words, "x")).await;
        assert_eq!((refused.acquired, refused.busy_name.as_str()), (false, "m"));
        assert!(
            holders(&mut client, "a").await.is_empty(),
            "when it is answered"
        );
        let begun = Instant::now();
        let mut call = Call::start(&mut client, all(&words, "x", secs(3))).await;
        assert_eq!(call.expect_waiting().await, "m");
        assert_eq!(holders(&mut client, "a").await, ["x=1"]);
        faults.lose_requests(undo, 1);
        call.expect_timeout().await;
        assert!(begun.elapsed() >= secs(3) && begun.elapsed() < millis(3100));
        assert!(
            holders(&mut client, "a").await.is_empty(),
            "when it is answered"
        );
    }
    client.release("m", "y").await.unwrap();
    world.expect_nothing_left(&["a", "m", "z"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_is_over_all_waits_together() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("a", "y", millis(1500)).await.unwrap();
    client.try_acquire("b", "y", millis(2500)).await.unwrap();
    client.try_acquire("c", "y", millis(3500)).await.unwrap();
    let begun = Instant::now();
    let mut call = Call::start(
        &mut client,
        all(&["a:fair", "b:fair", "c:fair"], "x", secs(3)),
    )
    .await;
    for name in ["a", "b", "c"] {
        assert_eq!(call.expect_waiting().await, name);
    }
    call.expect_timeout().await;
    assert!(begun.elapsed() >= secs(3) && begun.elapsed() < millis(3100));
    let mut call = Call::start(
        &mut client,
        all(&["a:fair", "b:fair", "c:fair"], "x", secs(3)),
    )
    .await;
    assert_eq!(names(&call.expect_granted().await), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_held_outlives_a_wait_that_is_longer_than_the_lease() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("b", "y", secs(20)).await.unwrap();
    let mut session = client.open().await;
    for session_id in [String::new(), session.id()] {
        let request = all(&["a:fair", "b"], "x", secs(60))
            .lasting(secs(1))
            .of_session(session_id);
        let mut call = Call::start(&mut client, request).await;
        call.expect_waiting().await;
        for _ in 0..20 {
            tokio::time::sleep(millis(500)).await;
            assert_eq!(holders(&mut client, "a").await, ["x=1"]);
        }
        client.release("b", "y").await.unwrap();
        let grants = call.expect_granted().await;
        for grant in &grants {
            assert!(std_duration(grant.valid_for) > millis(900), "{grant:?}");
        }
        tokio::time::sleep(secs(2)).await;
        expect_free(&world, &["a", "b"]).await;
        client.try_acquire("b", "y", secs(20)).await.unwrap();
    }
    // Of each loss the session was told, and of nothing else.
    let mut lost = [session.expect_lost().await, session.expect_lost().await];
    lost.sort_by_key(|it| it.grant.as_ref().unwrap().name.clone());
    assert_eq!(lost.map(|it| it.grant.unwrap().name), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_held_for_longer_than_the_lease_is_given_back_at_once() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("b", "y", secs(60)).await.unwrap();
    let request = all(&["a:fair", "b"], "x", secs(5)).lasting(secs(2));
    let mut call = Call::start(&mut client, request).await;
    assert_eq!(call.expect_waiting().await, "b");
    call.expect_timeout().await;
    assert!(holders(&mut client, "a").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_while_the_next_is_waited_for_is_taken_again() {
    for request_id in ["", "r"] {
        let (world, mut client) = World::with_client().await;
        client.try_acquire("b", "y", secs(60)).await.unwrap();
        let request = all(&["a:fair", "b"], "x", secs(60))
            .lasting(secs(3))
            .with_id(request_id);
        let mut call = Call::start(&mut client, request).await;
        call.expect_waiting().await;
        world.redis(&["DEL", "a"]);
        client.try_acquire("a", "z", secs(5)).await.unwrap();
        assert_eq!(call.expect_waiting().await, "a", "all begins again");
        client.release("b", "y").await.unwrap();
        let grants = call.expect_granted().await;
        assert_eq!(names(&grants), ["a", "b"]);
        assert_eq!(holders(&mut client, "a").await, ["x=1"]);
        released(&mut client, back(&["a:fair", "b"], "x")).await;
        world.expect_nothing_left(&["a", "b"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn opposite_orders_with_fair_locks_never_deadlock() {
    let world = World::new();
    let contenders = (0..12_usize).map(|n| {
        let world = &world;
        async move {
            let mut client = world.client(0).await;
            for round in 0..3 {
                let mut words = match (n + round) % 3 {
                    0 => vec!["a:fair", "b:fair"],
                    1 => vec!["a", "b:fair", "c"],
                    _ => vec!["a", "b", "c"],
                };
                if n % 2 == 0 {
                    words.reverse();
                }
                let owner = format!("o{n}");
                let request = all(&words, &owner, secs(600));
                Call::start(&mut client, request)
                    .await
                    .expect_granted()
                    .await;
                tokio::time::sleep(millis(20)).await;
                released(&mut client, back(&words, &owner)).await;
            }
        }
    });
    let begun = Instant::now();
    futures::future::join_all(contenders).await;
    // A deadlock would have lasted a lease.
    assert!(begun.elapsed() < secs(25), "{:?}", begun.elapsed());
    world.expect_nothing_left(&["a", "b", "c"]).await;
}
