//! What a hand-over costs: the store is asked for a release and an attempt, however many wait.

use lockkeeper::grpc::pb;

use crate::support::{
    FaultyHost, Options, World,
    client::{Call, Client, acquire_request},
    eventually, millis, secs,
};

const WAITERS: usize = 100;
const HAND_OVERS: usize = 50;

/// A store to which calls and answers take their time, as they do over a network.
fn distant() -> (crate::support::Faults, World) {
    let (faults, connect) = FaultyHost::connector();
    let world = World::on(&Options::default(), World::store(), connect);
    faults.set_answer_delay(millis(1));
    (faults, world)
}

/// Calls that wait behind a holder, in the order in which they came.
async fn line_up(world: &World, client: &mut Client) -> Vec<Call> {
    client.try_acquire("a", "holder", secs(3600)).await.unwrap();
    let mut calls = Vec::new();
    for _ in 0..WAITERS {
        let mut call = client.acquire(acquire_request("a", "")).await.unwrap();
        call.expect_waiting().await;
        calls.push(call);
    }
    eventually("all wait", || async {
        world.coordinator(0).load().waiters == WAITERS
    })
    .await;
    calls
}

/// Releases, and hears the next of them.
async fn hand_over(client: &mut Client, owner: &str, next: &mut Call) -> pb::Grant {
    client.release("a", owner).await.unwrap();
    next.expect_granted().await
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_behind_others_stands_in_line_without_asking_the_store() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let _calls = line_up(&world, &mut client).await;
    // The holder, the first who waits, and that one again when it is subscribed.
    assert!(faults.calls("lock_acquire") <= 3, "{faults:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_is_one_release_and_one_attempt_however_many_wait() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up(&world, &mut client).await;
    let before = faults.calls("lock_acquire");
    let (mut owner, mut token) = ("holder".to_owned(), 0);
    for next in calls.iter_mut().take(HAND_OVERS) {
        let grant = hand_over(&mut client, &owner, next).await;
        assert!(grant.fencing_token > token, "{grant:?}");
        (owner, token) = (grant.owner, grant.fencing_token);
    }
    assert_eq!(faults.calls("lock_release"), HAND_OVERS);
    assert_eq!(faults.calls("lock_acquire") - before, HAND_OVERS);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_gives_nothing_back_leaves_those_who_wait_as_they_were() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up(&world, &mut client).await;
    for _ in 0..3 {
        client.release("a", "somebody").await.unwrap_err();
    }
    let before = faults.calls("lock_acquire");
    let grant = hand_over(&mut client, "holder", &mut calls[0]).await;
    hand_over(&mut client, &grant.owner, &mut calls[1]).await;
    assert_eq!(faults.calls("lock_acquire") - before, 2);
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_is_lost_hands_the_lock_on_at_once() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up(&world, &mut client).await;
    faults.lose_answers("lock_release", 1);
    let begun = tokio::time::Instant::now();
    client.release("a", "holder").await.unwrap_err();
    calls[0].expect_granted().await;
    assert!(begun.elapsed() < millis(100), "not by a poll");
}
