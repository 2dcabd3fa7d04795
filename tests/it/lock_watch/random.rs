//! Owners that take and release a lock at random, on several coordinators of a slow store: a wait
//! for the free lock never ends while the lock is held all the time, and always ends.

use std::mem;

use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tokio::time::{sleep, timeout};

use super::await_free;
use crate::support::prelude::*;

const SEEDS: u64 = 6;
const LASTS: Duration = Duration::from_secs(30);

/// From a moment to a later one.
type Spell = (Instant, Instant);

const MODES: [LockMode; 4] = [
    LockMode::Exclusive,
    LockMode::Fair,
    LockMode::Exclusive,
    LockMode::Fair,
];

/// Holds the lock now and then until the end; a hold lasts from its grant to its release.
async fn hold(
    mut client: Client,
    owner: usize,
    seed: u64,
    end: Instant,
    holds: &Mutex<Vec<Spell>>,
) {
    let mut dice = StdRng::seed_from_u64(seed * 100 + owner as u64);
    let (name, mode) = (owner.to_string(), MODES[owner]);
    while Instant::now() < end {
        let request = acquire_request("a", &name).in_mode(mode).lasting(secs(60));
        let grant = client
            .acquire(request)
            .await
            .unwrap()
            .expect_granted()
            .await;
        assert_eq!(grant.hold_count, 1);
        let from = Instant::now();
        sleep(millis(dice.random_range(0..300))).await;
        holds.lock().push((from, Instant::now()));
        let release = pb::ReleaseRequest::named("a").by(&name).in_mode(mode);
        client.api.release(release).await.unwrap();
        sleep(millis(dice.random_range(0..1500))).await;
    }
}

/// Waits for the free lock again and again.
async fn wait(mut client: Client, waiter: u64, seed: u64, end: Instant, waits: &Mutex<Vec<Spell>>) {
    let mut dice = StdRng::seed_from_u64(seed * 100 + 50 + waiter);
    while Instant::now() < end {
        let from = Instant::now();
        let request = pb::AwaitFreeRequest::named("a");
        let mut call = await_free(&mut client, request).await.unwrap();
        let ended = timeout(LASTS * 2, call.expect_free()).await;
        ended.unwrap_or_else(|_| panic!("seed {seed}: the wait never ends"));
        waits.lock().push((from, Instant::now()));
        sleep(millis(dice.random_range(0..200))).await;
    }
}

/// Whether there was a moment in the wait at which nobody held the lock.
fn was_free(wait: &Spell, holds: &[Spell]) -> bool {
    let ends = holds.iter().map(|hold| hold.1);
    let moments = [wait.0, wait.1].into_iter().chain(ends);
    let mut within = moments.filter(|at| wait.0 <= *at && *at <= wait.1);
    within.any(|at| !holds.iter().any(|hold| hold.0 < at && at < hold.1))
}

#[tokio::test(start_paused = true)]
async fn a_wait_never_ends_while_the_lock_is_held_and_always_ends_when_it_is_free() {
    let mut waited = 0;
    for seed in 0..SEEDS {
        let (faults, world) = World::faulty_with(&Options::with(|it| it.coordinators = 2));
        faults.set_request_delay(millis(seed % 4));
        faults.set_answer_delay(millis(seed % 3));
        let end = Instant::now() + LASTS;
        let (holds, waits) = (Arc::default(), Arc::default());
        let (mut owners, mut waiters) = (Vec::new(), Vec::new());
        for owner in 0..MODES.len() {
            owners.push(hold(
                world.client(owner % 2).await,
                owner,
                seed,
                end,
                &holds,
            ));
        }
        for waiter in 0..3 {
            let node = usize::from(waiter == 0);
            waiters.push(wait(world.client(node).await, waiter, seed, end, &waits));
        }
        futures::join!(join_all(owners), join_all(waiters));
        let (holds, waits) = (mem::take(&mut *holds.lock()), mem::take(&mut *waits.lock()));
        for wait in &waits {
            assert!(
                was_free(wait, &holds),
                "seed {seed}: held from begin to end"
            );
        }
        let longer = waits.iter().filter(|wait| wait.1 - wait.0 > millis(50));
        waited += longer.count();
        world.expect_nothing_left(&["a"]).await;
    }
    assert!(waited > 30, "{waited} waits met a holder");
}
