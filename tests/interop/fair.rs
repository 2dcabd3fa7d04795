//! What is particular to fair locks: one order of arrival over everybody who waits, however they
//! wait and whoever dies.

use std::time::Duration;

use deadpool_redis::redis::Value;
use futures::future::join_all;
use lockkeeper_base::tasks::spawn_detached;
use tokio::time::Instant;

use crate::{
    agent::{Agent, Told, Version},
    contention::Witness,
    redis_server::eventually,
    redisson::{JavaThread, Kind, Redisson},
    world::{Ours, World, measured, secs, timed},
};

pub(crate) const NAME: &str = "build";
const QUEUE: &str = "redisson_lock_queue:{build}";
pub(crate) const CHANNELS: &str = "redisson_lock__channel:{build}:*";
const SIGNATURES: &str = "signatures";

/// What a dead waiter at the head may cost the next one.
pub(crate) const DEAD_HEAD_MAX: Duration = secs(10);

/// So many wait, by their own count or that of others.
pub(crate) async fn until_queued(world: &World, count: usize) {
    let count = i64::try_from(count).unwrap();
    eventually("so many are in the queue", || async {
        world.redis.command(&["LLEN", QUEUE]).await == Value::Int(count)
    })
    .await;
}

/// Waiters of both sides, who come one after the other.
struct Crowd {
    ours: Vec<(Ours, Witness)>,
    java: Vec<JavaThread>,
    _clients: [Redisson; 2],
}

impl Crowd {
    const OURS: usize = 64;
    const JAVA: usize = 8;
    const ALL: usize = Self::OURS + Self::JAVA;

    async fn gather(world: &World) -> Self {
        let mut coordinators = Vec::new();
        for coordinator in &world.coordinators {
            coordinators.push(coordinator.client().await);
        }
        let mut ours = Vec::new();
        for number in 0..Self::OURS {
            let client = &mut coordinators[number % 2];
            let session = Ours::open(client, Kind::Fair, NAME, None).await;
            ours.push((session, Witness::at(&world.redis).await));
        }
        let clients = [world.redisson().await, world.redisson().await];
        let threads = 0..Self::JAVA;
        let thread = |number: usize| clients[number % 2].thread(&number.to_string());
        Self {
            ours,
            java: threads.map(thread).collect(),
            _clients: clients,
        }
    }

    /// All of them come in the order of their numbers, while somebody holds the lock; then each
    /// signs the list when it is granted the lock.
    async fn round(&mut self, world: &World, holder: &mut Ours, round: usize) {
        holder.acquire().await;
        let mut java = self.java.iter();
        let mut ours = std::mem::take(&mut self.ours).into_iter();
        let (mut told, mut waiting) = (Vec::<Told>::new(), Vec::new());
        for place in 0..Self::ALL {
            let signature = place.to_string();
            // Every round the Redisson clients stand somewhere else.
            if (place + round).is_multiple_of(Self::ALL / Self::JAVA) {
                let thread = java.next().unwrap();
                told.push(thread.tell(&["sign", "fair", NAME, SIGNATURES, &signature]));
            } else {
                let (mut session, mut witness) = ours.next().unwrap();
                let op_id = session.wait().await;
                waiting.push(spawn_detached("waiter", async move {
                    session.granted(op_id).await;
                    witness.sign(SIGNATURES, &signature).await;
                    session.release().await;
                    (session, witness)
                }));
            }
            until_queued(world, place + 1).await;
        }
        holder.release().await;
        for waiter in waiting {
            self.ours.push(waiter.await.unwrap());
        }
        for told in told {
            told.value().await;
        }
    }
}

async fn expect_order_of_arrival(version: Version, rounds: usize) {
    let world = World::with(version, 2, |settings| settings).await;
    let mut holder = world.ours(Kind::Fair, NAME).await;
    let mut crowd = Crowd::gather(&world).await;
    let expected: Vec<_> = (0..Crowd::ALL)
        .map(|place| Value::BulkString(place.to_string().into_bytes()))
        .collect();
    let begun = Instant::now();
    for round in 0..rounds {
        crowd.round(&world, &mut holder, round).await;
        let signed = world
            .redis
            .command(&["LRANGE", SIGNATURES, "0", "-1"])
            .await;
        assert_eq!(signed, Value::Array(expected.clone()), "round {round}");
        world.redis.command(&["DEL", SIGNATURES]).await;
    }
    measured(
        &format!("{rounds} rounds of 64 + 8 waiters"),
        begun.elapsed(),
    );
}

#[tokio::test]
async fn all_are_granted_in_the_order_in_which_they_came() {
    expect_order_of_arrival(Version::Current, 20).await;
}

#[tokio::test]
async fn all_are_granted_in_the_order_in_which_they_came_also_with_an_older_redisson() {
    expect_order_of_arrival(Version::Older, 4).await;
}

/// Who holds the lock and who stands in the queue when its head dies.
#[derive(Debug)]
struct KilledHead {
    java_holds: bool,
    java_is_next: bool,
    another_is_ours: bool,
}

impl KilledHead {
    /// How long the next one has to wait for the lock after it was given back.
    async fn delay(self) -> Duration {
        let world = World::with(Version::Current, 2, |settings| settings).await;
        let redisson = world.redisson().await;
        let (java, other) = (redisson.thread("a"), redisson.thread("b"));
        let mut holder = world.ours_at(1, Kind::Fair, NAME, None).await;
        if self.java_holds {
            java.lock(Kind::Fair, NAME).value().await;
        } else {
            holder.acquire().await;
        }
        let mut head = world.ours_at(0, Kind::Fair, NAME, None).await;
        head.wait().await;
        until_queued(&world, 1).await;
        let mut next = world.ours_at(1, Kind::Fair, NAME, None).await;
        let next = if self.java_is_next {
            timed(async move { drop(other.lock(Kind::Fair, NAME).value().await) })
        } else {
            let op_id = next.wait().await;
            timed(async move { drop(next.granted(op_id).await) })
        };
        until_queued(&world, 2).await;
        let mut another = world.ours_at(1, Kind::Fair, NAME, None).await;
        let mut queued = 2;
        if self.another_is_ours {
            another.wait().await;
            queued = 3;
        }
        until_queued(&world, queued).await;
        // Redisson has tried a second time by then, and sleeps.
        world.until_listening(CHANNELS, queued).await;

        world.coordinators[0].kill();
        let released = Instant::now();
        if self.java_holds {
            java.unlock(Kind::Fair, NAME).value().await;
        } else {
            holder.release().await;
        }
        let (granted, ()) = next.await.unwrap();
        let delay = granted - released;
        measured(&format!("{self:?}"), delay);
        delay
    }
}

#[tokio::test]
async fn a_killed_head_delays_the_next_for_seconds() {
    let case = |java_holds, java_is_next| KilledHead {
        java_holds,
        java_is_next,
        another_is_ours: java_holds && java_is_next,
    };
    let cases = [
        case(false, false),
        case(false, true),
        case(true, false),
        case(true, true),
    ];
    for delay in join_all(cases.map(KilledHead::delay)).await {
        assert!(delay < DEAD_HEAD_MAX, "{delay:?}");
    }
}

/// Where nobody of ours holds the lock or waits for it any more, no coordinator looks at it, and
/// Redisson's waiter sleeps as long as the lease lasted that it was told when it came.
#[tokio::test]
async fn a_killed_head_among_redisson_clients_delays_the_next_for_no_longer_than_a_lease() {
    let case = KilledHead {
        java_holds: true,
        java_is_next: true,
        another_is_ours: false,
    };
    let delay = case.delay().await;
    assert!(delay < secs(33), "{delay:?}");
}

#[tokio::test]
async fn a_killed_jvm_at_the_head_delays_our_next_waiter_for_seconds() {
    let world = World::start(Version::Current).await;
    let jvm = Agent::start(Version::Current);
    let redisson = Redisson::connect_by(jvm.clone(), &world.redis, Duration::ZERO).await;
    let mut holder = world.ours(Kind::Fair, NAME).await;
    holder.acquire().await;
    let head = redisson.thread("a").lock(Kind::Fair, NAME);
    until_queued(&world, 1).await;
    let mut next = world.ours(Kind::Fair, NAME).await;
    let op_id = next.wait().await;
    until_queued(&world, 2).await;

    jvm.kill();
    let released = Instant::now();
    holder.release().await;
    next.granted(op_id).await;
    measured("a killed JVM at the head", released.elapsed());
    assert!(
        released.elapsed() < DEAD_HEAD_MAX,
        "{:?}",
        released.elapsed()
    );
    drop(head);
}
