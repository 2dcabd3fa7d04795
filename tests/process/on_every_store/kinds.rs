//! Fair locks and read/write locks.

use std::sync::atomic::{AtomicBool, Ordering};

use lockkeeper_store::script::keys;
use tokio::task::JoinHandle;

use super::world::{LATE_MAX, World};
use crate::modes::wait;
use crate::prelude::*;

const WAITERS: usize = 6;
const NEWCOMERS: usize = 2;
const READERS: usize = 8;

pub(super) async fn mission_17_granted_in_the_order_of_asking_or_refused_by_name(world: World) {
    const NAME: &str = "fair";
    let mut clients = [world.client(0).await, world.client(1).await];
    if !world.kind().has_queues() {
        return expect_no_fair_lock(&world, NAME).await;
    }
    let store = world.store();
    assert!(clients[0].gets(NAME, "x", LockMode::Fair).await);
    let (mut calls, mut owners) = (Vec::new(), Vec::new());
    for number in 0..WAITERS {
        let owner = format!("w{number}");
        let request = wait(NAME, &owner, LockMode::Fair);
        let mut call = clients[number % 2].acquire(request).await.unwrap();
        let place = call.expect_waiting().await.position;
        assert_eq!(
            place as usize,
            number + 1,
            "counts all, also those elsewhere"
        );
        calls.push(call);
        owners.push(owner);
    }
    let queue = keys::queue(NAME).to_string();
    let count = WAITERS.to_string();
    store.until(NAME, &["LLEN", &queue], |it| it == count).await;
    let seen = clients[0].describe(NAME).await;
    let listed = seen.waiters.iter().map(|waiter| waiter.owner.as_str());
    assert!(listed.eq(owners.iter().map(String::as_str)), "{seen:?}");

    // One that does not listen yet would not be waited for: the next would be woken too.
    for owner in &owners {
        let channel = keys::fair_channel(NAME, owner);
        store.until_listened_to(NAME, &channel, true).await;
    }
    let watch = store.watch(NAME).await;
    let newcomers = Newcomers::begin(&world, NAME).await;
    let mut before = "x".to_owned();
    for (mut call, owner) in calls.into_iter().zip(&owners) {
        clients[1].give_back(NAME, &before, LockMode::Fair).await;
        assert_eq!(call.expect_granted().await.owner, *owner);
        before.clone_from(owner);
    }
    newcomers.expect_none_had_it().await;
    clients[0].give_back(NAME, &before, LockMode::Fair).await;
    // A crowd is not woken: each in its turn, once or, for a newcomer that found the lock free,
    // again.
    let common = keys::channel(NAME);
    let expected = owners.iter().map(|owner| keys::fair_channel(NAME, owner));
    let expected: Vec<_> = expected.collect();
    for said in watch.published(|it| it.starts_with(&common)).await {
        let mut channels: Vec<_> = said.into_iter().map(|(channel, _)| channel).collect();
        channels.dedup();
        assert_eq!(channels, expected);
    }
    store.until(NAME, &["EXISTS", &queue], |it| it == "0").await;
}

/// They try again and again to get a fair lock ahead of those that wait for it: between a release
/// and the next grant it is free.
struct Newcomers {
    is_over: Arc<AtomicBool>,
    tries: Vec<JoinHandle<(Instant, usize)>>,
}

// === impl Newcomers ===

impl Newcomers {
    async fn begin(world: &World, name: &'static str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut tries = Vec::new();
        for number in 0..NEWCOMERS {
            let (mut client, is_over) = (world.client(number).await, Arc::clone(&is_over));
            tries.push(timed(async move {
                let (owner, mut had) = (format!("newcomer-{number}"), 0);
                while !is_over.load(Ordering::SeqCst) {
                    if client.gets(name, &owner, LockMode::Fair).await {
                        had += 1;
                        client.give_back(name, &owner, LockMode::Fair).await;
                    }
                    tokio::time::sleep(millis(1)).await;
                }
                had
            }));
        }
        Self { is_over, tries }
    }

    async fn expect_none_had_it(self) {
        self.is_over.store(true, Ordering::SeqCst);
        for tries in self.tries {
            assert_eq!(tries.await.unwrap().1, 0, "ahead of those that wait");
        }
    }
}

/// Nodes that know nothing of each other have no common order; a lock that is not fair is not
/// passed off as one.
async fn expect_no_fair_lock(world: &World, name: &str) {
    let mut client = world.client(0).await;
    let refused = client.try_in(name, "x", LockMode::Fair, secs(60)).await;
    assert_eq!(refusal(refused), "UNSUPPORTED_BY_STORE");
    let waits = client.acquire(wait(name, "x", LockMode::Fair)).await;
    let refused = match waits {
        Ok(mut call) => call.end().await.unwrap_err(),
        Err(refused) => refused,
    };
    assert_eq!(reason(&refused), "UNSUPPORTED_BY_STORE");
    assert!(client.holders(name).await.is_empty());
}

pub(super) async fn mission_18_many_readers_or_one_writer_that_may_read_and_wakes_all(
    world: World,
) {
    const NAME: &str = "documents";
    const READ: LockMode = LockMode::Read;
    const WRITE: LockMode = LockMode::Write;
    let store = world.store();
    let mode = ["HGET", NAME, "mode"];
    let (mut near, mut far) = (world.client(0).await, world.client(1).await);
    assert!(near.gets(NAME, "r1", READ).await);
    assert!(far.gets(NAME, "r2", READ).await);
    store.until(NAME, &mode, |it| it == "read").await;
    assert!(!near.gets(NAME, "w", WRITE).await, "two read");
    assert_eq!(near.describe(NAME).await.holder_count, 2);

    // Each with a time to live of its own, the lock with that of the longest.
    near.renew_as(NAME, "r1", READ, secs(600)).await.unwrap();
    let seen = far.describe(NAME).await;
    let left = [0, 1].map(|at: usize| std_duration(seen.holders[at].remaining_lease));
    assert!(left[0] > secs(500) && left[1] <= secs(60), "{left:?}");
    let whole = std_duration(seen.remaining_lease);
    assert!(whole > secs(500) && whole <= secs(600), "{whole:?}");
    near.give_back(NAME, "r1", READ).await;
    let left = std_duration(far.describe(NAME).await.remaining_lease);
    assert!(left <= secs(60), "only as long as who is left: {left:?}");
    far.give_back(NAME, "r2", READ).await;

    let mut session = near.open().await;
    let written = session.take_in(NAME, WRITE).await;
    store.until(NAME, &mode, |it| it == "write").await;
    let read = session.take_in(NAME, READ).await;
    assert_eq!(read.fencing_token, written.fencing_token, "the writer's");
    let mut readers = Vec::new();
    for number in 0..READERS {
        let mut client = world.client(number).await;
        let request = wait(NAME, &format!("r{number}"), READ);
        let mut call = client.waits(request).await;
        readers.push(timed(async move { call.expect_granted().await }));
    }
    let channel = keys::rw_channel(NAME);
    store.until_listened_to(NAME, &channel, true).await;
    tokio::time::sleep(millis(300)).await;
    let released = Instant::now();
    give_back_in(&mut near, NAME, &session.id(), WRITE).await;
    store.until(NAME, &mode, |it| it == "read").await;
    for reader in readers {
        let (granted_at, _) = reader.await.unwrap();
        let waited = granted_at.saturating_duration_since(released);
        assert!(waited < LATE_MAX, "{waited:?}");
    }
    let seen = far.describe(NAME).await;
    assert_eq!(seen.holder_count as usize, READERS + 1, "it reads as well");

    let mut writer = far.acquire(wait(NAME, "w", WRITE)).await.unwrap();
    until_waiting(&far, NAME, 1).await;
    for number in 0..READERS {
        near.give_back(NAME, &format!("r{number}"), READ).await;
    }
    session.close().await.unwrap();
    writer.expect_granted().await;
    near.give_back(NAME, "w", WRITE).await;
    let is_free = || async { near.clone().holders(NAME).await.is_empty() };
    eventually("it is free", is_free).await;
}

/// A release of a session's hold, by a call besides its stream.
async fn give_back_in(
    client: &mut crate::client::Client,
    name: &str,
    session: &str,
    mode: LockMode,
) {
    let request = lockkeeper_api::pb::ReleaseRequest::named(name)
        .of_session(session)
        .in_mode(mode);
    client.api.release(request).await.unwrap();
}
