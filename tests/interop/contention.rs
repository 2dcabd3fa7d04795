//! Everybody wants the same lock. Inside it a counter is read and then written: two who are inside
//! together lose a count.

use deadpool_redis::redis::{AsyncCommands as _, Client, Value, aio::MultiplexedConnection};
use lockkeeper_base::tasks::spawn_detached;
use tokio::time::Instant;

use crate::{
    agent::Version,
    redis_server::RedisServer,
    redisson::Kind,
    world::{Ours, World, measured},
};

/// Contenders on each side; half of each share a client or a coordinator.
pub(crate) const SIDE: usize = 8;

const NAME: &str = "contended";
pub(crate) const WITNESS: &str = "witness";

/// Which side was inside, in order.
pub(crate) const SIDES: &str = "sides";

/// Eight threads of two Redisson clients against eight sessions at two coordinators, each so many
/// rounds.
pub(crate) async fn for_one_lock(version: Version, kind: Kind, rounds: usize) {
    let world = World::with(version, 2, |settings| settings).await;
    let clients = [world.redisson().await, world.redisson().await];
    let begun = Instant::now();
    let text = rounds.to_string();
    let java: Vec<_> = (0..SIDE)
        .map(|number| {
            let thread = clients[number % 2].thread(&number.to_string());
            thread.tell(&["contend", kind.in_java(), NAME, &text, WITNESS, SIDES])
        })
        .collect();
    let mut sessions = Vec::new();
    for number in 0..SIDE {
        let ours = world.ours_at(number % 2, kind, NAME, None).await;
        let witness = Witness::at(&world.redis).await;
        sessions.push(spawn_detached("contender", contend(ours, witness, rounds)));
    }
    for session in sessions {
        session.await.unwrap();
    }
    for told in java {
        told.value().await;
    }
    measured(
        &format!("{kind:?}, {} rounds", 2 * SIDE * rounds),
        begun.elapsed(),
    );
    expect_all_counted(&world, rounds, rounds).await;
    assert_eq!(world.redis.lease_left(NAME).await, None);
}

/// No count was lost, and the lock went from one side to the other so many times at least, so they
/// did contend.
pub(crate) async fn expect_all_counted(world: &World, rounds: usize, changes_min: usize) {
    let counted = world.witness(WITNESS).await;
    assert_eq!(counted, u64::try_from(2 * SIDE * rounds).unwrap());
    let Value::Array(sides) = world.redis.command(&["LRANGE", SIDES, "0", "-1"]).await else {
        panic!("not a list");
    };
    assert_eq!(sides.len(), 2 * SIDE * rounds);
    let changes = sides.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(
        changes >= changes_min,
        "{changes} times from one side to the other"
    );
}

async fn contend(mut ours: Ours, mut witness: Witness, rounds: usize) {
    for _ in 0..rounds {
        ours.acquire().await;
        witness.take_part().await;
        ours.release().await;
    }
}

/// A connection for what is done inside a lock.
pub(crate) struct Witness(MultiplexedConnection);

// === impl Witness ===

impl Witness {
    pub(crate) async fn at(server: &RedisServer) -> Self {
        let client = Client::open(server.url()).unwrap();
        Self(client.get_multiplexed_async_connection().await.unwrap())
    }

    pub(crate) async fn count(&mut self, key: &str) -> u64 {
        let count: Option<u64> = self.0.get(key).await.unwrap();
        count.unwrap_or(0)
    }

    /// Not atomic, on purpose.
    pub(crate) async fn count_up(&mut self, key: &str) {
        let count = self.count(key).await;
        self.0.set::<_, _, ()>(key, count + 1).await.unwrap();
    }

    /// What a contender of ours does inside the lock.
    pub(crate) async fn take_part(&mut self) {
        self.count_up(WITNESS).await;
        self.sign(SIDES, "ours").await;
    }

    /// Signs a list.
    pub(crate) async fn sign(&mut self, list: &str, signature: &str) {
        self.0.rpush::<_, _, ()>(list, signature).await.unwrap();
    }
}
