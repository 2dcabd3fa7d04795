//! A quorum of embedded stores under a paused clock: answers that come late or never, and what is
//! left behind.

use lockkeeper_store::host::embedded::EmbeddedStore;

use crate::support::FaultyHost;
use crate::support::prelude::*;

/// A coordinator on so many stores, and the faults of each.
fn quorum(stores: usize) -> (World, Vec<Faults>) {
    let (faults, connect) = FaultyHost::connectors();
    let options = Options::with(|it| it.stores = stores);
    let world = World::on(&options, World::store(), connect);
    let faults = faults.lock().clone();
    (world, faults)
}

fn run(store: &EmbeddedStore, words: &[&str]) -> Value {
    let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
    store.command(&words).unwrap()
}

/// How many stores have the lock.
fn held(world: &World, name: &str) -> usize {
    let exists = |store: &&EmbeddedStore| run(store, &["EXISTS", name]) == Value::Int(1);
    world.stores.iter().filter(exists).count()
}

fn counter(store: &EmbeddedStore, name: &str) -> u64 {
    let counter = keys::counter(name).to_bytes();
    let value = store.command(&[b"GET".as_slice(), &counter]).unwrap();
    let digits = expect!(value, Value::Bytes);
    str::from_utf8(&digits).unwrap().parse().unwrap()
}

fn set_counter(store: &EmbeddedStore, name: &str, value: u64) {
    let counter = keys::counter(name).to_bytes();
    let value = value.to_string();
    store
        .command(&[b"SET".as_slice(), &counter, value.as_bytes()])
        .unwrap();
}

const AHEAD: u64 = 4_000_000_000_000_000;

#[tokio::test(start_paused = true)]
async fn what_a_store_does_late_is_undone() {
    let (world, faults) = quorum(5);
    let mut client = world.client(0).await;
    for frozen in &faults[..3] {
        frozen.freeze();
    }
    let refused = client.try_acquire("a", "x", secs(60)).await.unwrap_err();
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    assert!(
        refused.message().contains("2 of 5 stores answered"),
        "{refused}"
    );
    assert_eq!(held(&world, "a"), 0);
    let thawed = Instant::now();
    for frozen in &faults[..3] {
        frozen.thaw();
    }
    eventually("it has run", || async {
        world.stores.iter().all(|store| {
            let counter = keys::counter("a").to_bytes();
            store.command(&[b"EXISTS".as_slice(), &counter]).unwrap() == Value::Int(1)
        })
    })
    .await;
    eventually("it is undone", || async { held(&world, "a") == 0 }).await;
    assert!(thawed.elapsed() < secs(3), "{:?}", thawed.elapsed());
    assert!(client.gets_for("a", "y", secs(5)).await);
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_answers_are_lost_is_undone_although_a_majority_made_it() {
    let (world, faults) = quorum(3);
    let mut client = world.client(0).await;
    for faults in &faults[..2] {
        faults.lose_answers("lock_acquire", 1);
    }
    let request = try_request("a", "x").lasting(secs(60)).with_id("once");
    let refused = client.try_with(request.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    eventually("it is undone", || async { held(&world, "a") == 0 }).await;
    // The same request can be made again.
    let tried = client.try_with(request).await.unwrap();
    assert_eq!(tried.grant.unwrap().hold_count, 1);
    assert_eq!(held(&world, "a"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_no_majority_confirms_is_not_told() {
    let (world, faults) = quorum(3);
    let mut client = world.client(0).await;
    set_counter(&world.stores[0], "a", AHEAD);
    for faults in &faults[1..] {
        faults.lose_answers("lock_raise", 1);
    }
    let refused = client.try_acquire("a", "x", secs(60)).await.unwrap_err();
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    assert_eq!(held(&world, "a"), 0, "it is given back everywhere");

    // One that does not confirm in time is raised in the background.
    faults[1].lose_requests("lock_raise", 1);
    let grant = client.try_acquire("a", "x", secs(60)).await.unwrap();
    let token = grant.grant.unwrap().fencing_token;
    assert!(token > AHEAD + 1, "{token}");
    eventually("all counters show the token", || async {
        world
            .stores
            .iter()
            .all(|store| counter(store, "a") == token)
    })
    .await;
    assert!(client.release("a", "x").await.unwrap().released);
    assert_eq!(held(&world, "a"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_a_message_of_any_store() {
    let (world, faults) = quorum(5);
    let mut client = world.client(0).await;
    let mut holder = client.open().await;
    holder.acquire("a").await;
    let mut waiter = client.open().await;
    let op_id = waiter.waits_for("a", "").await;
    tokio::time::sleep(millis(10)).await;
    for store in &world.stores {
        let before = faults[0].calls("lock_acquire");
        run(store, &["PUBLISH", &keys::channel("a"), "0"]);
        tokio::time::sleep(millis(5)).await;
        assert!(faults[0].calls("lock_acquire") > before, "nobody looked");
    }
    assert!(holder.release("a").await.released);
    let released = Instant::now();
    waiter.expect_granted(op_id).await;
    assert!(released.elapsed() < millis(100), "{:?}", released.elapsed());
    waiter.close().await.unwrap();
    holder.close().await.unwrap();
    world.expect_nothing_left(&["a"]).await;
    assert_eq!(held(&world, "a"), 0);
}

#[tokio::test(start_paused = true)]
async fn who_has_a_minority_gives_it_back_and_waits_without_haste() {
    let (world, faults) = quorum(5);
    let mut client = world.client(0).await;
    // The holder has three of five; the other two are free for whoever asks.
    for away in &faults[3..] {
        away.set_unavailable(true);
    }
    let mut holder = client.open().await;
    holder.acquire("a").await;
    for away in &faults[3..] {
        away.set_unavailable(false);
    }
    let mut waiter = client.open().await;
    let op_id = waiter.waits_for("a", "").await;
    tokio::time::sleep(millis(100)).await;
    let before = faults[0].calls("lock_acquire");
    tokio::time::sleep(secs(10)).await;
    let attempts = faults[0].calls("lock_acquire") - before;
    assert!(
        (8..=14).contains(&attempts),
        "{attempts} attempts in ten polls"
    );
    assert_eq!(held(&world, "a"), 3);
    assert!(holder.release("a").await.released);
    waiter.expect_granted(op_id).await;
    assert_eq!(held(&world, "a"), 5);
}

#[tokio::test(start_paused = true)]
async fn votes_that_are_split_between_two_are_given_back_and_one_of_them_comes_first() {
    let (world, faults) = quorum(3);
    let mut client = world.client(0).await;
    // Two others have a vote each, and one store is away: nobody can have a majority.
    faults[2].set_unavailable(true);
    let split = |store: &EmbeddedStore, owner: &str| {
        run(store, &["HSET", "a", owner, "1"]);
        run(store, &["PEXPIRE", "a", "300"]);
    };
    split(&world.stores[0], "y");
    let tried = client.try_acquire("a", "x", secs(5)).await.unwrap();
    let left = crate::support::client::std_duration(tried.holder_remaining_lease);
    assert!(
        !tried.acquired && left < millis(100),
        "{left:?}: soon again"
    );
    let begun = Instant::now();
    let request = crate::support::client::acquire_request("a", "x")
        .lasting(secs(5))
        .within(secs(5));
    let mut call = client.acquire(request).await.unwrap();
    call.expect_granted().await;
    assert!(begun.elapsed() < millis(500), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_session_rides_out_stores_that_are_away_for_less_than_its_lease() {
    let (world, faults) = quorum(3);
    let mut session = world.client(0).await.open().await;
    session.acquire("a").await;
    for faults in &faults[..2] {
        faults.set_unavailable(true);
    }
    assert!(matches!(session.notice().await, Response::AtRisk(_)));
    for faults in &faults[..2] {
        faults.set_unavailable(false);
    }
    assert!(matches!(session.notice().await, Response::Recovered(_)));
    tokio::time::sleep(secs(60)).await;
    assert_eq!(held(&world, "a"), 3);
    // A release that one store does not hear of is brought to its end there.
    faults[1].freeze();
    assert!(session.release("a").await.released);
    faults[1].thaw();
    eventually("it is free everywhere", || async { held(&world, "a") == 0 }).await;
}
