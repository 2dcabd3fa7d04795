//! Fencing tokens on a quorum: each member makes its own, and what is told grows all the same.

use crate::prelude::*;
use crate::quorum_members::Quorum;

/// Far in the future of every clock, and still below 2^53.
const AHEAD: u64 = 4_000_000_000_000_000;

async fn take_and_give(client: &mut Client, name: &str) -> u64 {
    let tried = client.try_acquire(name, "x", secs(60)).await.unwrap();
    let token = tried.grant.expect("it is free").fencing_token;
    assert!(client.release(name, "x").await.unwrap().released);
    token
}

/// The coordinator has found a member again that was restarted without its data.
async fn until_all_vote(quorum: &Quorum, client: &Client) {
    eventually("all members have a vote", || async {
        let mut client = client.clone();
        let _ = client.try_acquire("probe", "x", millis(100)).await;
        let counter = "redisson_lock_token:{probe}";
        quorum.count_of(&[0, 1, 2], counter).await == 3
    })
    .await;
}

#[tokio::test]
async fn tokens_grow_although_the_members_counters_differ_and_members_lose_theirs() {
    let mut quorum = Quorum::start(3).await;
    let coordinator = quorum.coordinator(&quorum.settings()).await;
    let mut client = coordinator.client().await;
    let counter = "redisson_lock_token:{build}";
    let mut tokens = vec![take_and_give(&mut client, "build").await];

    // One member's clock is far ahead of the others', or a grant that nobody heard of has left a
    // large number there.
    quorum.members[0]
        .text(&["SET", counter, &AHEAD.to_string()])
        .await;
    tokens.push(take_and_give(&mut client, "build").await);
    assert_eq!(tokens[1], AHEAD + 1);
    for member in &quorum.members {
        assert_eq!(member.text(&["GET", counter]).await, tokens[1].to_string());
    }

    // That one goes, with all it knew: the others go on from there.
    quorum.members[0].kill();
    tokens.push(take_and_give(&mut client, "build").await);
    quorum.members[0].restart_on_same_port().await;
    until_all_vote(&quorum, &client).await;
    for restarted in [1, 2, 0] {
        tokens.push(take_and_give(&mut client, "build").await);
        quorum.members[restarted].kill();
        quorum.members[restarted].restart_on_same_port().await;
        until_all_vote(&quorum, &client).await;
    }
    tokens.push(take_and_give(&mut client, "build").await);
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test]
async fn a_repeat_is_told_of_the_token_that_was_told_first() {
    let quorum = Quorum::start(3).await;
    let coordinator = quorum.coordinator(&quorum.settings()).await;
    let mut client = coordinator.client().await;
    let counter = "redisson_lock_token:{build}";
    quorum.members[1]
        .text(&["SET", counter, &AHEAD.to_string()])
        .await;
    let request = try_request("build", "x").with_id("once");
    let first = client.try_with(request.clone()).await.unwrap();
    let first = first.grant.unwrap();
    assert_eq!(first.fencing_token, AHEAD + 1);
    let again = client.try_with(request.clone()).await.unwrap();
    let again = again.grant.unwrap();
    assert_eq!(
        (again.fencing_token, again.hold_count),
        (first.fencing_token, 1)
    );

    let checked = client.check_token("build", first.fencing_token).await;
    assert!(checked.current && checked.held, "{checked:?}");

    let give = pb::ReleaseRequest::named("build").by("x").with_id("give");
    for _ in 0..2 {
        let given = client.release_with(give.clone()).await.unwrap();
        assert!(given.released);
    }
    assert_eq!(quorum.count_of(&[0, 1, 2], "build").await, 0);
    assert_eq!(refusal(client.try_with(request).await), "NOT_OWNER");
}

#[tokio::test]
async fn holds_are_counted_by_a_majority_and_the_token_stays() {
    let quorum = Quorum::start(3).await;
    let coordinator = quorum.coordinator(&quorum.settings()).await;
    let mut session = coordinator.client().await.open().await;
    let first = session.acquire("build").await;
    // A member loses the lock, as one that restarts does.
    quorum.members[2].text(&["DEL", "build"]).await;
    let second = session.acquire("build").await;
    assert_eq!(
        (second.hold_count, second.fencing_token),
        (2, first.fencing_token)
    );
    quorum.until_count(&[2], "build", 0).await;
    assert_eq!(session.release("build").await.hold_count, 1);
    assert_eq!(session.release("build").await.hold_count, 0);
    assert_eq!(quorum.count_of(&[0, 1, 2], "build").await, 0);
    tokio::time::sleep(millis(1)).await;
}
