//! Fair locks: granted in the order of asking, by a queue in the store; a dead waiter holds the
//! others up for seconds, a crowd does not.

use crate::support::prelude::*;
use crate::support::{client::Call, modes::wait};

const QUEUE: &str = "redisson_lock_queue:{a}";
const DEADLINES: &str = "redisson_lock_timeout:{a}";

async fn begin(client: &mut Client, owner: &str) -> Call {
    client.waits(wait("a", owner, LockMode::Fair)).await
}

async fn hold(client: &mut Client, owner: &str, mode: LockMode) {
    let tried = client.try_in("a", owner, mode, secs(600)).await;
    let answer = tried.unwrap();
    assert!(answer.acquired, "{answer:?}");
}

fn queue(world: &World) -> Vec<String> {
    let items = expect!(world.redis(&["LRANGE", QUEUE, "0", "-1"]), Value::Array);
    let text = |item: &Value| String::from_utf8(expect!(item, Value::Bytes).to_vec()).unwrap();
    items.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn mission_17_granted_in_the_order_of_asking_by_a_queue_in_the_store() {
    let world = World::of(2);
    let mut clients = [world.client(0).await, world.client(1).await];
    hold(&mut clients[0], "holder", LockMode::Fair).await;
    let mut calls = Vec::new();
    let mut expected = Vec::new();
    for number in 0..20 {
        let owner = format!("o{number}");
        calls.push(begin(&mut clients[number % 2], &owner).await);
        expected.push(owner);
        assert_eq!(queue(&world), expected);
    }
    let seen = clients[1].describe("a").await;
    let listed: Vec<_> = seen
        .waiters
        .iter()
        .map(|waiter| waiter.owner.as_str())
        .collect();
    assert_eq!(listed, expected, "also those of the other coordinator");
    assert!(
        seen.waiters
            .iter()
            .zip(1..)
            .all(|(waiter, place)| waiter.position == place)
    );
    assert_eq!((seen.waiter_count, seen.mode()), (20, LockMode::Fair));

    let mut before = "holder".to_owned();
    for (mut call, owner) in calls.into_iter().zip(expected) {
        // A newcomer does not get ahead of those that wait.
        assert!(!clients[0].tries(fair_try("newcomer")).await);
        let released = Instant::now();
        clients[1].give_back("a", &before, LockMode::Fair).await;
        assert_eq!(call.expect_granted().await.owner, owner);
        assert!(released.elapsed() < millis(50), "woken by its message");
        before = owner;
    }
    clients[0].give_back("a", &before, LockMode::Fair).await;
    for key in [QUEUE, DEADLINES, "lockkeeper_fair_waiters:{a}"] {
        assert_eq!(world.redis(&["EXISTS", key]), Value::Int(0), "{key}");
    }
    world.expect_nothing_left(&["a"]).await;
}

fn fair_try(owner: &str) -> pb::TryAcquireRequest {
    try_request("a", owner).in_mode(LockMode::Fair)
}

#[tokio::test(start_paused = true)]
async fn mission_17_a_crowd_is_not_woken_the_next_one_is() {
    const CROWD: usize = 100;
    let (faults, world) = World::faulty_with(&Options::with(|it| it.coordinators = 2));
    let mut clients = [world.client(0).await, world.client(1).await];
    hold(&mut clients[0], "holder", LockMode::Fair).await;
    let mut calls = Vec::new();
    for number in 0..CROWD {
        calls.push(begin(&mut clients[number % 2], &format!("o{number}")).await);
    }
    let channel = keys::fair_channel("a", "o7");
    world.until_listening(&channel, 1).await;
    assert_eq!(
        world.store.subscription_count(&keys::channel("a")),
        0,
        "no common channel"
    );
    // Their second attempts are over, and the next poll of the first one is not due yet.
    tokio::time::sleep(millis(3)).await;
    let attempts = || faults.calls("fair_acquire") + faults.calls("lock_hand_on");
    let before = attempts();
    clients[0].give_back("a", "holder", LockMode::Fair).await;
    calls[0].expect_granted().await;
    tokio::time::sleep(millis(100)).await;
    assert_eq!(attempts() - before, 1, "one attempt, by the next one");
    // While the lock is held, the first of the queue polls, and nobody else does.
    let before = faults.calls("fair_acquire");
    tokio::time::sleep(secs(20)).await;
    let polls = faults.calls("fair_acquire") - before;
    assert!((15..=26).contains(&polls), "{polls} attempts in 20 s");
}

#[tokio::test(start_paused = true)]
async fn who_asks_again_at_another_coordinator_has_its_place_still() {
    let (faults, world) = World::one_mortal();
    let (mut living, mut dying) = (world.client(0).await, world.client(1).await);
    hold(&mut living, "holder", LockMode::Fair).await;
    let _first = begin(&mut dying, "first").await;
    let mut second = begin(&mut living, "second").await;
    faults.set_unavailable(true);
    tokio::time::sleep(secs(3)).await;
    let mut again = begin(&mut living, "first").await;
    tokio::time::sleep(secs(20)).await;
    assert_eq!(queue(&world), ["first", "second"]);
    living.give_back("a", "holder", LockMode::Fair).await;
    again.expect_granted().await;
    living.give_back("a", "first", LockMode::Fair).await;
    second.expect_granted().await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_coordinator_died_is_passed_over_after_seconds() {
    let (faults, world) = World::one_mortal();
    let (mut living, mut dying) = (world.client(0).await, world.client(1).await);
    hold(&mut living, "holder", LockMode::Fair).await;
    let _dead = begin(&mut dying, "dead").await;
    let mut call = begin(&mut living, "living").await;
    faults.set_unavailable(true);
    let died = Instant::now();
    living.give_back("a", "holder", LockMode::Fair).await;
    call.expect_granted().await;
    assert!(died.elapsed() < secs(7), "{:?}", died.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_client_died_is_passed_over_at_once() {
    let world = World::new();
    let (mut living, mut dying) = (world.client(0).await, world.client(0).await);
    hold(&mut living, "holder", LockMode::Fair).await;
    let _dead = begin(&mut dying, "dead").await;
    let mut call = begin(&mut living, "living").await;
    dying.cut();
    eventually("its place is gone", || async {
        queue(&world) == ["living"]
    })
    .await;
    living.give_back("a", "holder", LockMode::Fair).await;
    call.expect_granted().await;
}

#[tokio::test(start_paused = true)]
async fn waiters_of_another_program_stand_in_the_same_queue() {
    let (world, mut client) = World::with_client().await;
    hold(&mut client, "holder", LockMode::Fair).await;
    // As Redisson queues up: it counts as dead 300 s after it asked.
    let deadline = (1_700_000_000_000_u64 + 300_000).to_string();
    let java = "8743c9c0-0795-4907-87fd-6c719a6b4586:17";
    world.redis(&["RPUSH", QUEUE, java]);
    world.redis(&["ZADD", DEADLINES, &deadline, java]);
    let mut call = client
        .acquire(wait("a", "second", LockMode::Fair))
        .await
        .unwrap();
    assert_eq!(call.expect_waiting().await.position, 2);
    assert_eq!(client.describe("a").await.waiters[0].owner, "17");
    client.give_back("a", "holder", LockMode::Fair).await;
    // It does not listen, so it gets the time of a waiter that nobody vouches for.
    let released = Instant::now();
    call.expect_granted().await;
    let waited = released.elapsed();
    assert!(waited > millis(4900) && waited < secs(7), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn exclusive_and_fair_exclude_each_other_and_find_out_by_polls() {
    const ROUNDS: u32 = 12;
    let (_world, mut client) = World::with_client().await;
    for (held, waits) in [
        (LockMode::Fair, LockMode::Exclusive),
        (LockMode::Exclusive, LockMode::Fair),
    ] {
        let mut longest = Duration::ZERO;
        for _ in 0..ROUNDS {
            hold(&mut client, "holder", held).await;
            let request = wait("a", "waiter", LockMode::Fair).in_mode(waits);
            let mut call = client.waits(request).await;
            // Not a multiple of how often waiters are vouched for, which finds out too: one release
            // that comes right before would be followed by others.
            tokio::time::sleep(millis(4300)).await;
            let released = Instant::now();
            client.give_back("a", "holder", held).await;
            call.expect_granted().await;
            longest = longest.max(released.elapsed());
            client.give_back("a", "waiter", waits).await;
        }
        // A poll may come right after the release by chance, but not always.
        assert!(longest > millis(100), "{longest:?}");
        assert!(longest <= millis(1250), "{longest:?}");
    }
}
