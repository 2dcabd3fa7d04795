//! What keepalives of etcd's leases say stays true if their coordinator or its store is gone.

use tokio::time::{sleep, sleep_until};

use super::etcd::{Etcd, KeepAlive, options};
use crate::support::prelude::*;

const TTL: i64 = 9;
const EVERY: Duration = millis(700);

/// A lease that holds a lock at the coordinator that can be cut off from the store, and a client of
/// the other one.
struct Story {
    _world: World,
    faults: Faults,
    lease: i64,
    keeping: KeepAlive,
    other: Etcd,
}

impl Story {
    async fn new() -> Self {
        let (faults, world) = World::one_mortal_with(&options());
        let mut cut = Etcd::of(&world.client(1).await);
        let lease = cut.grant(TTL).await;
        cut.lock("a", lease).await.unwrap();
        let keeping = cut.keep_alive().await;
        let other = Etcd::of(&world.client(0).await);
        Self {
            _world: world,
            faults,
            lease,
            keeping,
            other,
        }
    }

    async fn ask(&mut self) -> Duration {
        let left = self.keeping.ask(self.lease).await.unwrap();
        Duration::from_secs(left.try_into().unwrap())
    }

    /// Keeps the lease alive until then. Returns until when its program may rely on it.
    async fn keep(&mut self, until: Instant) -> Instant {
        loop {
            let promised = self.ask().await;
            assert_eq!(promised, secs(9), "normally all of it");
            let promised = Instant::now() + promised;
            if Instant::now() + EVERY > until {
                sleep_until(until).await;
                return promised;
            }
            sleep(EVERY).await;
        }
    }
}

/// When another program gets the lock.
async fn taken(mut other: Etcd) -> Instant {
    let lease = other.grant(600).await;
    other.lock("a", lease).await.unwrap();
    Instant::now()
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_held_for_as_long_as_the_last_keepalive_said_if_the_coordinator_is_gone() {
    // Before, at and after renewals of the watchdog.
    for lives_for in [100, 2900, 3200, 3400, 5900, 6200, 9500, 12_400] {
        let mut story = Story::new().await;
        let promised = story.keep(Instant::now() + millis(lives_for)).await;
        story.faults.freeze();
        let taken = taken(story.other).await;
        assert!(
            taken >= promised,
            "{lives_for}: {:?} too early",
            promised - taken
        );
        assert!(taken - promised <= secs(4), "{lives_for}: too late");
    }
}

#[tokio::test(start_paused = true)]
async fn keepalives_promise_no_more_while_the_store_is_cut_off() {
    for cut_at in [100, 2900, 3100, 4500, 5900, 6200, 9000] {
        let mut story = Story::new().await;
        let mut promised = story.keep(Instant::now() + millis(cut_at)).await;
        story.faults.freeze();
        let taken = taken(story.other.clone());
        let keeps = async {
            loop {
                let left = story.ask().await;
                if left.is_zero() {
                    return promised;
                }
                promised = promised.max(Instant::now() + left);
                sleep(EVERY).await;
            }
        };
        let (taken, promised) = tokio::join!(taken, keeps);
        assert!(
            taken >= promised,
            "{cut_at}: {:?} too early",
            promised - taken
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_a_store_that_comes_back_in_time() {
    let mut story = Story::new().await;
    assert_eq!(story.ask().await, secs(9));
    sleep(secs(1)).await;
    story.faults.set_unavailable(true);
    let left = story.ask().await;
    assert!(left <= secs(8), "{left:?}");
    story.faults.set_unavailable(false);
    assert_eq!(story.ask().await, secs(9));
    sleep(secs(8)).await;
    assert_eq!(story.ask().await, secs(9));
}
