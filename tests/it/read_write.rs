//! Read/write locks: many readers or one writer, each with a lease of its own.

use crate::support::modes::wait;
use crate::support::prelude::*;

const READ: LockMode = LockMode::Read;
const WRITE: LockMode = LockMode::Write;

fn field(world: &World, name: &str) -> Option<String> {
    match world.redis(&["HGET", "a", name]) {
        Value::Bytes(bytes) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
        _ => None,
    }
}

fn time_to_live(world: &World, key: &str) -> i64 {
    expect!(world.redis(&["PTTL", key]), Value::Int)
}

#[tokio::test(start_paused = true)]
async fn mission_18_many_readers_or_one_writer_and_the_mode_stands_in_the_hash() {
    let (world, mut client) = World::with_client().await;
    assert!(client.gets("a", "x", READ).await);
    assert!(client.gets("a", "y", READ).await);
    assert_eq!(field(&world, "mode").as_deref(), Some("read"));
    assert_eq!(field(&world, "x").as_deref(), Some("1"));
    assert!(!client.gets("a", "z", WRITE).await);
    let seen = client.describe("a").await;
    assert_eq!((seen.mode(), seen.holder_count), (READ, 2));
    for owner in ["x", "y"] {
        client.give_back("a", owner, READ).await;
    }
    assert!(client.gets("a", "z", WRITE).await);
    assert_eq!(field(&world, "mode").as_deref(), Some("write"));
    assert_eq!(field(&world, "z:write").as_deref(), Some("1"));
    assert!(!client.gets("a", "x", WRITE).await && !client.gets("a", "x", READ).await);
    client.give_back("a", "z", WRITE).await;
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(0));
}

#[tokio::test(start_paused = true)]
async fn mission_18_each_read_hold_has_its_time_to_live_and_the_lock_that_of_the_longest() {
    let (world, mut client) = World::with_client().await;
    client.try_in("a", "x", READ, secs(10)).await.unwrap();
    client.try_in("a", "y", READ, secs(40)).await.unwrap();
    let holds = ["{a}:x:rwlock_timeout:1", "{a}:y:rwlock_timeout:1"];
    assert_eq!(holds.map(|key| time_to_live(&world, key)), [10_000, 40_000]);
    assert_eq!(time_to_live(&world, "a"), 40_000);
    let leases: Vec<_> = client.describe("a").await.holders;
    let leases = leases
        .iter()
        .map(|it| (it.owner.as_str(), std_duration(it.remaining_lease)));
    assert!(leases.eq([("x", secs(10)), ("y", secs(40))]));

    let begun = Instant::now();
    tokio::time::sleep(secs(11)).await;
    let seen = client.describe("a").await;
    assert_eq!(
        (seen.holder_count, seen.holders[0].owner.as_str()),
        (1, "y")
    );
    let mut writer = client.acquire(wait("a", "z", WRITE)).await.unwrap();
    writer.expect_granted().await;
    assert!(
        begun.elapsed() >= secs(40) && begun.elapsed() < millis(40_100),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn mission_18_the_lock_lives_no_longer_than_the_longest_that_is_left() {
    let (world, mut client) = World::with_client().await;
    client.try_in("a", "x", READ, secs(10)).await.unwrap();
    client.try_in("a", "y", READ, secs(40)).await.unwrap();
    client.give_back("a", "y", READ).await;
    assert_eq!(time_to_live(&world, "a"), 10_000);
}

#[tokio::test(start_paused = true)]
async fn mission_18_a_writer_may_read_and_becomes_a_reader_that_lets_others_in() {
    let (world, mut near, mut far) = World::two_with_clients().await;
    let mut session = near.open().await;
    let written = session.take_in("a", WRITE).await;
    let read = session.take_in("a", READ).await;
    assert_eq!(
        read.fencing_token, written.fencing_token,
        "that of the last writer"
    );
    let seen = near.describe("a").await;
    assert_eq!((seen.mode(), seen.holder_count), (WRITE, 2));

    let mut reader = far.waits(wait("a", "y", READ)).await;
    let mut writer = far.waits(wait("a", "z", WRITE)).await;
    tokio::time::sleep(secs(5)).await;
    let released = Instant::now();
    let request = pb::ReleaseRequest::named("a").in_mode(WRITE);
    let op_id = session.send(Request::Release(request));
    session.end(op_id).await;
    assert_eq!(field(&world, "mode").as_deref(), Some("read"));
    reader.expect_granted().await;
    assert!(
        released.elapsed() < millis(50),
        "woken at once: {:?}",
        released.elapsed()
    );
    // The read hold is renewed as before.
    tokio::time::sleep(secs(50)).await;
    near.give_back("a", "y", READ).await;
    let seen = near.describe("a").await;
    assert_eq!((seen.mode(), seen.holder_count), (READ, 1));
    session.close().await.unwrap();
    writer.expect_granted().await;
}

#[tokio::test(start_paused = true)]
async fn mission_18_a_writer_wakes_all_readers_at_once() {
    let world = World::of(2);
    let mut clients = [world.client(0).await, world.client(1).await];
    assert!(clients[0].gets("a", "writer", WRITE).await);
    let mut calls = Vec::new();
    for number in 0..50 {
        let request = wait("a", &format!("r{number}"), READ);
        let mut call = clients[number % 2].acquire(request).await.unwrap();
        call.expect_waiting().await;
        calls.push(call);
    }
    let channel = keys::rw_channel("a");
    world.until_listening(&channel, 2).await;
    tokio::time::sleep(secs(3)).await;
    let released = Instant::now();
    clients[0].give_back("a", "writer", WRITE).await;
    join_all(
        calls
            .iter_mut()
            .map(crate::support::client::Call::expect_granted),
    )
    .await;
    assert!(released.elapsed() < millis(50), "{:?}", released.elapsed());
    assert_eq!(clients[1].describe("a").await.holder_count, 50);
}

#[tokio::test(start_paused = true)]
async fn who_only_reads_and_asks_to_write_is_refused_at_once() {
    let (_world, mut client) = World::with_client().await;
    assert!(client.gets("a", "x", READ).await);
    let refused = client.try_in("a", "x", WRITE, secs(60)).await.unwrap_err();
    assert_eq!(reason(&refused), "SELF_DEADLOCK");
    let refused = client
        .acquire(wait("a", "x", WRITE))
        .await
        .unwrap()
        .end()
        .await;
    assert_eq!(refusal(refused), "SELF_DEADLOCK");
    // Nobody else is kept out by it.
    assert!(client.gets("a", "y", READ).await);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_writer_holds_new_readers_back_for_a_time() {
    let (_world, mut client) = World::with_client().await;
    client.try_in("a", "x", READ, secs(600)).await.unwrap();
    let mut writer = client.waits(wait("a", "w", WRITE)).await;
    assert!(!client.gets("a", "y", READ).await);
    assert!(
        client.gets("a", "x", READ).await,
        "one that is in may read again"
    );
    let begun = Instant::now();
    let mut reader = client.acquire(wait("a", "y", READ)).await.unwrap();
    reader.expect_granted().await;
    let waited = begun.elapsed();
    assert!(waited > millis(4900) && waited < millis(5300), "{waited:?}");
    // As long again they are let in, then held back anew.
    assert!(client.gets("a", "z", READ).await);
    tokio::time::sleep(secs(7)).await;
    assert!(!client.gets("a", "late", READ).await);
    for owner in ["x", "x", "y", "z"] {
        client.give_back("a", owner, READ).await;
    }
    writer.expect_granted().await;
}

#[tokio::test(start_paused = true)]
async fn readers_are_let_in_when_the_writer_gives_up_waiting() {
    let (_world, mut client) = World::with_client().await;
    client.try_in("a", "x", READ, secs(600)).await.unwrap();
    let writer = client.waits(wait("a", "w", WRITE)).await;
    let mut reader = client.waits(wait("a", "y", READ)).await;
    drop(writer);
    let begun = Instant::now();
    reader.expect_granted().await;
    assert!(begun.elapsed() < millis(50), "{:?}", begun.elapsed());
}
