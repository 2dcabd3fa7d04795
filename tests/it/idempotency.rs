//! A repeat with the same request id gets the first answer and changes nothing.

use crate::support::prelude::*;

fn with_id(name: &str, owner: &str, id: &str) -> pb::TryAcquireRequest {
    try_request(name, owner).with_id(id)
}

fn release(name: &str, owner: &str, id: &str) -> pb::ReleaseRequest {
    pb::ReleaseRequest::named(name).by(owner).with_id(id)
}

#[tokio::test(start_paused = true)]
async fn a_repeated_acquire_adds_no_hold_and_gets_the_same_owner() {
    let (_world, mut near, mut far) = World::two_with_clients().await;
    let first = near.take(with_id("a", "", "r1")).await;
    let again = far.take(with_id("a", "", "r1")).await;
    assert_eq!(
        (first.owner.as_str(), first.fencing_token, 1),
        (again.owner.as_str(), again.fencing_token, again.hold_count)
    );
    let streamed = acquire_request("a", &first.owner).with_id("r1");
    assert_eq!(far.granted(streamed).await.hold_count, 1);
    assert!(near.release("a", &first.owner).await.unwrap().released);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_release_gives_back_one_hold() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(10)).await.unwrap();
    client.try_acquire("a", "x", secs(10)).await.unwrap();
    for _ in 0..3 {
        let answer = client.release_with(release("a", "x", "r1")).await.unwrap();
        assert_eq!((answer.released, answer.hold_count), (false, 1));
    }
    for _ in 0..3 {
        assert!(
            client
                .release_with(release("a", "x", "r2"))
                .await
                .unwrap()
                .released
        );
    }
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(0));
}

#[tokio::test(start_paused = true)]
async fn a_refused_try_is_an_answer_too() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(10)).await.unwrap();
    assert!(!client.tries(with_id("a", "y", "r1")).await);
    client.release("a", "x").await.unwrap();
    assert!(!client.tries(with_id("a", "y", "r1")).await);
    tokio::time::advance(secs(61)).await;
    assert!(
        client.tries(with_id("a", "y", "r1")).await,
        "after the retention time it is a new request"
    );
}

#[tokio::test(start_paused = true)]
async fn a_late_repeat_does_not_take_the_lock_again() {
    let (world, mut client) = World::with_client().await;
    client
        .api
        .try_acquire(with_id("a", "x", "r1"))
        .await
        .unwrap();
    client.release("a", "x").await.unwrap();
    let late = client.try_with(with_id("a", "x", "r1")).await.unwrap_err();
    assert_eq!(reason(&late), "NOT_OWNER");
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(0));
}

#[tokio::test(start_paused = true)]
async fn a_late_repeat_of_a_release_leaves_what_is_held_since_alone() {
    let (world, mut client, mut session) = World::with_session().await;
    let first = release("a", "", "r1").of_session(session.id());
    session.acquire("a").await;
    client.api.release(first.clone()).await.unwrap();
    session.acquire("a").await;
    let again = client.release_with(first).await.unwrap();
    assert!(again.released, "the first answer");
    tokio::time::sleep(secs(100)).await;
    assert_eq!(
        world.redis(&["EXISTS", "a"]),
        Value::Int(1),
        "it is still renewed"
    );

    // The same of a grant that nobody renews: the repeat does not make its end any later.
    let held = try_request("b", "")
        .of_session(session.id())
        .lasting(secs(10));
    for _ in 0..2 {
        client.api.try_acquire(held.clone()).await.unwrap();
    }
    let one = release("b", "", "r2").of_session(session.id());
    let refreshed_at = Instant::now();
    client.api.release(one.clone()).await.unwrap();
    tokio::time::sleep(secs(8)).await;
    client.api.release(one).await.unwrap();
    assert_eq!(session.expect_lost().await.grant.unwrap().name, "b");
    assert!(refreshed_at.elapsed() <= secs(10));
}

#[tokio::test(start_paused = true)]
async fn an_id_used_for_something_else_is_refused() {
    let (_world, mut client) = World::with_client().await;
    client
        .api
        .try_acquire(with_id("a", "x", "r1"))
        .await
        .unwrap();
    let other_owner = client.try_with(with_id("a", "y", "r1")).await.unwrap_err();
    client.try_acquire("held", "o", secs(10)).await.unwrap();
    client
        .api
        .try_acquire(with_id("held", "x", "r2"))
        .await
        .unwrap();
    let wait = acquire_request("held", "x").with_id("r2");
    let wait = client.acquire(wait).await.unwrap().end().await.unwrap_err();
    let other_operation = client
        .release_with(release("a", "x", "r1"))
        .await
        .unwrap_err();
    for refused in [other_owner, wait, other_operation] {
        expect_status(&refused, tonic::Code::InvalidArgument, "INVALID_REQUEST_ID");
    }
    assert!(client.tries(with_id("b", "y", "r1")).await, "another name");
}

#[tokio::test(start_paused = true)]
async fn an_acquire_whose_answer_is_lost_is_undone_and_can_be_repeated() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let mut session = client.open().await;
    let id = session.id();
    for (n, request) in [
        try_request("a", ""),
        try_request("a", "x"),
        with_id("a", "x", "r1"),
        try_request("a", "").of_session(id.clone()),
        with_id("a", "", "r2").of_session(id.clone()),
    ]
    .into_iter()
    .enumerate()
    {
        faults.lose_answers("lock_acquire", 1);
        let lost = client.try_with(request.clone()).await.unwrap_err();
        expect_status(&lost, tonic::Code::Unavailable, "OUTCOME_UNKNOWN");
        world.until_answer(&["EXISTS", "a"], 0).await;
        let again = client.try_with(request.clone()).await.unwrap();
        assert_eq!(again.grant.as_ref().unwrap().hold_count, 1, "case {n}");
        let grant = again.grant.unwrap();
        let back = pb::ReleaseRequest::named("a")
            .of_session(grant.session_id)
            .by(grant.owner);
        assert!(
            client.release_with(back).await.unwrap().released,
            "case {n}"
        );
    }
    session.acquire("b").await;
    faults.lose_answers("lock_acquire", 1);
    let op = session.send_acquire("b", "");
    assert_eq!(session.expect_failed(op).await, "OUTCOME_UNKNOWN");
    assert_eq!(
        session.acquire("b").await.hold_count,
        2,
        "exactly the lost one was undone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_is_lost_is_brought_to_its_end() {
    let (faults, _world, mut client) = World::faulty_with_client().await;
    let mut session = client.open().await;
    for (ran, request_id) in [(true, ""), (false, ""), (true, "r1"), (false, "r2")] {
        session.acquire("a").await;
        session.acquire("a").await;
        if ran {
            faults.lose_answers("lock_release", 1);
        } else {
            faults.lose_requests("lock_release", 1);
        }
        let request = release("a", "", request_id).of_session(session.id());
        let lost = client.release_with(request.clone()).await.unwrap_err();
        assert_eq!(reason(&lost), "OUTCOME_UNKNOWN");
        if !request_id.is_empty() {
            let repeated = client.release_with(request).await.unwrap();
            assert_eq!((repeated.released, repeated.hold_count), (false, 1));
        }
        assert!(session.release("a").await.released, "one hold was left");
    }
    let timeout = Some(proto(secs(1)));
    let request = pb::AcquireRequest {
        wait_timeout: timeout,
        ..acquire_request("a", "z")
    };
    client.granted(request).await;
}
