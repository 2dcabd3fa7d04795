//! Redis as it is run in production: Redisson's clients of each deployment and ours exclude and
//! wake each other there.

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_store::script::keys;
use tokio::time::Instant;

use crate::{
    agent::Version,
    contention::{SIDE, SIDES, WITNESS, Witness},
    coordinator::Coordinator,
    counters::{Latch, Semaphore},
    redisson::{Kind, Redisson},
    stores::{Deployment, Store},
    world::{NO_POLL, Ours, PROMPT, measured, millis, timed},
};

const ROUNDS: usize = 15;

/// Which Redisson, and how it subscribes on a cluster.
#[derive(Clone, Copy)]
struct RedissonIs(Version, &'static str);

/// How Redisson holds a lock and how we do, so that the two exclude each other.
const PAIRS: [(Kind, Kind); 5] = [
    (Kind::Plain, Kind::Plain),
    (Kind::Fair, Kind::Fair),
    (Kind::Write, Kind::Write),
    (Kind::Read, Kind::Write),
    (Kind::Write, Kind::Read),
];

/// Names of which a cluster has some on each of its masters.
const NAMES: usize = 4;

/// A deployment, and one coordinator and one Redisson client of it, neither of which polls.
struct Shared {
    redisson_is: RedissonIs,
    store: Deployment,
    coordinator: Coordinator,
    redisson: Redisson,
}

// === impl Shared ===

impl Shared {
    async fn start(redisson_is: RedissonIs, store: Store) -> Self {
        let store = store.start().await;
        let settings = store.settings().with("store.poll_interval", NO_POLL);
        let settings = settings.with("store.adopt_redisson_counters", "true");
        let coordinator = Coordinator::start(&settings).await;
        let redisson = connect(redisson_is, &store).await;
        Self {
            redisson_is,
            store,
            coordinator,
            redisson,
        }
    }

    async fn ours(&self, kind: Kind, name: &str) -> Ours {
        let mut client = self.coordinator.client().await;
        Ours::open(&mut client, kind, name, None).await
    }

    /// Somebody listens to channels of a name and relies on messages now.
    async fn until_heard(&self, name: &str, channels: &str) {
        self.store.until_listened_to(name, channels, true).await;
        // From here on there is nothing to see from outside; it takes a confirmation's and an
        // attempt's way.
        tokio::time::sleep(millis(300)).await;
    }
}

async fn connect(RedissonIs(version, subscription): RedissonIs, store: &Deployment) -> Redisson {
    let words = store.in_java(subscription);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    Redisson::connect_to(version.agent().clone(), &words, millis(0)).await
}

/// Either side waits for the other, which gives the lock back; both are woken by messages.
async fn both_exclude_and_wake_each_other(shared: &Shared) {
    let java = shared.redisson.thread("a");
    for (number, (in_java, in_ours)) in (0..NAMES).flat_map(|it| PAIRS.map(|pair| (it, pair))) {
        let name = format!("{in_java:?}-{in_ours:?}-{number}");
        let mut ours = shared.ours(in_ours, &name).await;
        java.lock(in_java, &name).value().await;
        assert!(!ours.try_acquire().await.acquired, "{name}");
        let op_id = ours.wait().await;
        java.unlock(in_java, &name).value().await;
        let unlocked = Instant::now();
        ours.granted(op_id).await;
        let ours_woken = unlocked.elapsed();

        let waits = timed(java.lock(in_java, &name).value());
        let channels = format!("{}*", in_java.channel(&name));
        shared.until_heard(&name, &channels).await;
        assert!(!waits.is_finished(), "{name}");
        let released = Instant::now();
        assert_eq!(ours.release().await, 0);
        let (locked, _) = waits.await.unwrap();
        let java_woken = locked - released;
        measured(&format!("{name}: we were woken"), ours_woken);
        measured(&format!("{name}: Java was woken"), java_woken);
        assert!(ours_woken < PROMPT && java_woken < PROMPT, "{name}");
        java.unlock(in_java, &name).value().await;
    }
}

/// Permits that one side gives back wake the other.
async fn permits_wake_the_other_side(shared: &Shared) {
    let java = shared.redisson.thread("a");
    for number in 0..NAMES {
        let name = format!("pool-{number}");
        let mut ours = Semaphore::new(&shared.coordinator.client().await, &name);
        assert!(ours.set(2).await.created);
        let held = java.tell(&["semaphore-acquire", &name, "2", "-1"]);
        let held = held.value().await;
        let mut call = ours.waits(ours.request("x", 2)).await;
        java.tell(&["semaphore-release", &name, &held])
            .value()
            .await;
        let released = Instant::now();
        let grant = call.expect_granted().await;
        let ours_woken = released.elapsed();

        let waits = timed(java.tell(&["semaphore-acquire", &name, "1", "-1"]).value());
        let channel = keys::permit_channel(&name);
        shared.until_heard(&name, &channel).await;
        assert!(!waits.is_finished(), "{name}");
        let released = Instant::now();
        ours.release("x", &grant.permit_ids).await.unwrap();
        let (acquired, _) = waits.await.unwrap();
        let java_woken = acquired - released;
        measured(&format!("{name}: we were woken"), ours_woken);
        measured(&format!("{name}: Java was woken"), java_woken);
        assert!(ours_woken < PROMPT && java_woken < PROMPT, "{name}");
    }
}

/// A latch that one side opens is open for the other.
async fn latches_open_for_both_sides(shared: &Shared) {
    let (java, waiter) = (shared.redisson.thread("a"), shared.redisson.thread("b"));
    for (number, java_opens) in (0..NAMES).flat_map(|it| [(it, true), (it, false)]) {
        let name = format!("start-{number}-{java_opens}");
        let mut ours = Latch::new(&shared.coordinator.client().await, &name);
        assert!(ours.set(1).await);
        let mut call = ours.wait(None).await;
        call.expect_waiting(1).await;
        let we_wait = timed(async move { call.expect_opened().await });
        let channel = keys::latch_channel(&name);
        shared.until_heard(&name, &channel).await;
        let java_waits = timed(waiter.tell(&["latch-await", &name, "-1"]).yes());
        // Its subscription cannot be told from ours; it looks once more when it stands.
        tokio::time::sleep(millis(300)).await;
        assert!(
            !we_wait.is_finished() && !java_waits.is_finished(),
            "{name}"
        );
        let opened = Instant::now();
        if java_opens {
            java.tell(&["latch-down", &name]).value().await;
        } else {
            assert_eq!(ours.count_down(1).await.unwrap(), 0);
        }
        let (we_were_told, ()) = we_wait.await.unwrap();
        let (java_was_told, is_open) = java_waits.await.unwrap();
        assert!(is_open);
        for told in [we_were_told, java_was_told] {
            let took = told.saturating_duration_since(opened);
            measured(&format!("{name}: open"), took);
            assert!(took < PROMPT, "{name}: {took:?}");
        }
    }
}

/// Eight threads of two Redisson clients against eight sessions of ours, on one lock.
async fn none_are_inside_together(shared: &Shared) {
    const NAME: &str = "{contended}:lock";
    let (witness, sides) = (format!("{NAME}{WITNESS}"), format!("{NAME}{SIDES}"));
    let other = connect(shared.redisson_is, &shared.store).await;
    let rounds = ROUNDS.to_string();
    let words = ["contend", "plain", NAME, &rounds, &witness, &sides];
    let java = (0..SIDE).map(|number| {
        let client = [&shared.redisson, &other][number % 2];
        client.thread(&number.to_string()).tell(&words)
    });
    let java: Vec<_> = java.collect();
    let mut sessions = Vec::new();
    for _ in 0..SIDE {
        let mut ours = shared.ours(Kind::Plain, NAME).await;
        let mut at = Witness::at(shared.store.keeper(NAME).await).await;
        let (witness, sides) = (witness.clone(), sides.clone());
        sessions.push(spawn_detached("contender", async move {
            for _ in 0..ROUNDS {
                ours.acquire().await;
                at.count_up(&witness).await;
                at.sign(&sides, "ours").await;
                ours.release().await;
            }
        }));
    }
    for session in sessions {
        session.await.unwrap();
    }
    for told in java {
        told.value().await;
    }
    let keeper = shared.store.keeper(NAME).await;
    let expected = (2 * SIDE * ROUNDS).to_string();
    assert_eq!(keeper.text(&["GET", &witness]).await, expected);
    assert_eq!(keeper.text(&["LLEN", &sides]).await, expected);
    assert_eq!(keeper.text(&["EXISTS", NAME]).await, "0");
}

async fn all_is_shared(version: Version, subscription: &'static str, store: Store) {
    let shared = Shared::start(RedissonIs(version, subscription), store).await;
    both_exclude_and_wake_each_other(&shared).await;
    none_are_inside_together(&shared).await;
    permits_wake_the_other_side(&shared).await;
    latches_open_for_both_sides(&shared).await;
}

#[tokio::test]
async fn locks_are_shared_behind_sentinels() {
    all_is_shared(Version::Current, "", Store::Sentinel).await;
}

#[tokio::test]
async fn locks_are_shared_behind_sentinels_with_an_older_redisson() {
    all_is_shared(Version::Older, "", Store::Sentinel).await;
}

#[tokio::test]
async fn locks_are_shared_on_a_cluster() {
    all_is_shared(Version::Current, "AUTO", Store::Cluster).await;
}

#[tokio::test]
async fn locks_are_shared_on_a_cluster_without_sharded_messages() {
    all_is_shared(Version::Current, "OFF", Store::Cluster).await;
}

#[tokio::test]
async fn locks_are_shared_on_a_cluster_with_an_older_redisson() {
    all_is_shared(Version::Older, "default", Store::Cluster).await;
}
