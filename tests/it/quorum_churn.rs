//! Contenders at three coordinators on five stores, while calls are delayed, lost, refused and
//! frozen at random: never two hold a lock, tokens grow, and nothing is left behind. A seed tells
//! the faults.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::support::FaultyHost;
use crate::support::prelude::*;

const STORES: usize = 5;
const COORDINATORS: usize = 3;
const CONTENDERS: usize = 9;
const SEEDS: u64 = 4;
const RUN: Duration = secs(6);

/// By the paused clock: longer than any answer takes.
const PATIENCE: Duration = secs(120);

/// Scripts whose calls get lost.
const SCRIPTS: [&str; 12] = [
    "lock_acquire",
    "lock_raise",
    "lock_release",
    "lock_undo",
    "read_acquire",
    "read_raise",
    "read_release",
    "read_undo",
    "write_acquire",
    "write_release",
    "write_undo",
    "write_leave",
];

/// Who is inside, as the protected resource would see it.
#[derive(Default)]
struct Witness {
    readers: Cell<usize>,
    others: Cell<usize>,
    newest: Cell<u64>,
    last_write: Cell<u64>,
    grants: RefCell<BTreeMap<i32, usize>>,
}

// === impl Witness ===

impl Witness {
    fn enter(&self, grant: &pb::Grant) {
        let (readers, others) = (self.readers.get(), self.others.get());
        let token = grant.fencing_token;
        if grant.mode() == LockMode::Read {
            assert_eq!(others, 0, "a reader comes in while others write");
            // Those who read at the same time may have different ones.
            let last = self.last_write.get();
            assert!(token >= last, "a reader's {token} after {last}");
            self.readers.set(readers + 1);
        } else {
            assert_eq!((readers, others), (0, 0), "two hold it at once");
            assert!(
                token > self.newest.get(),
                "{token} after {}",
                self.newest.get()
            );
            self.others.set(1);
            self.last_write.set(token);
        }
        self.newest.set(token.max(self.newest.get()));
        *self.grants.borrow_mut().entry(grant.mode).or_default() += 1;
    }

    fn leave(&self, mode: LockMode) {
        if mode == LockMode::Read {
            self.readers.set(self.readers.get() - 1);
        } else {
            self.others.set(0);
        }
    }
}

/// Takes the lock again and again until the time is over.
async fn contend(world: &World, number: usize, modes: &[LockMode], witness: &Witness, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed * 100 + number as u64);
    let mut session = world.client(number % COORDINATORS).await.open().await;
    let over = Instant::now() + RUN;
    while Instant::now() < over {
        let mode = modes[random.random_range(0..modes.len())];
        let op_id = session.send(Request::Acquire(
            acquire_request("a", "").in_mode(mode).within(secs(2)),
        ));
        let grant = loop {
            let answer = tokio::time::timeout(PATIENCE, session.answer(op_id)).await;
            match answer.unwrap_or_else(|_| panic!("{number}: no answer to an acquire of {mode:?}"))
            {
                Response::Waiting(_) => {}
                Response::Granted(grant) => break Some(grant),
                Response::NotGranted(_) | Response::Failed(_) => break None,
                other => panic!("{other:?}"),
            }
        };
        if let Some(grant) = grant {
            witness.enter(&grant);
            tokio::time::sleep(millis(random.random_range(0..20))).await;
            witness.leave(mode);
            let op_id = session.send(Request::Release(
                pb::ReleaseRequest::named("a").in_mode(mode),
            ));
            // What has no outcome is brought to its end in the background.
            let answer = tokio::time::timeout(PATIENCE, session.answer(op_id)).await;
            assert!(matches!(
                answer.unwrap_or_else(|_| panic!("{number}: no answer to a release of {mode:?}")),
                Response::Released(_) | Response::Failed(_)
            ));
        }
        tokio::time::sleep(millis(random.random_range(0..10))).await;
    }
    let closed = tokio::time::timeout(PATIENCE, session.close()).await;
    closed
        .unwrap_or_else(|_| panic!("{number}: not closed"))
        .unwrap();
}

/// Does something wrong every few moments, and heals all at the end.
async fn disturb(all: &[Faults], seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let over = Instant::now() + RUN;
    let mut healing: Vec<(Instant, usize)> = Vec::new();
    while Instant::now() < over {
        tokio::time::sleep(millis(random.random_range(5..60))).await;
        let which = random.random_range(0..all.len());
        let script = SCRIPTS[random.random_range(0..SCRIPTS.len())];
        let heal_at = Instant::now() + millis(random.random_range(50..900));
        match random.random_range(0..6) {
            0 => all[which].lose_answers(script, random.random_range(1..4)),
            1 => all[which].lose_requests(script, random.random_range(1..4)),
            2 => {
                all[which].freeze();
                healing.push((heal_at, which));
            }
            3 => {
                all[which].set_unavailable(true);
                healing.push((heal_at, which));
            }
            _ => all[which].set_request_delay(millis(random.random_range(0..8))),
        }
        healing.retain(|(at, which)| {
            let due = Instant::now() >= *at;
            if due {
                all[*which].thaw();
                all[*which].set_unavailable(false);
            }
            !due
        });
    }
    for faults in all {
        faults.thaw();
        faults.set_unavailable(false);
        faults.set_request_delay(Duration::ZERO);
        for script in SCRIPTS {
            faults.lose_answers(script, 0);
            faults.lose_requests(script, 0);
        }
    }
}

async fn churn(seed: u64, modes: &[LockMode]) {
    let (faults, connect) = FaultyHost::connectors();
    let options = Options::with(|it| {
        it.coordinators = COORDINATORS;
        it.stores = STORES;
    });
    let world = World::on(&options, World::store(), connect);
    let faults = faults.lock().clone();
    let witness = Witness::default();
    let contenders = (0..CONTENDERS).map(|number| contend(&world, number, modes, &witness, seed));
    tokio::join!(join_all(contenders), disturb(&faults, seed));
    for mode in modes {
        let grants = witness.grants.borrow();
        let grants = grants.get(&i32::from(*mode)).copied().unwrap_or(0);
        assert!(grants > 5, "seed {seed}: {grants} grants of {mode:?}");
    }
    for store in &world.stores {
        eventually("it is free everywhere", || async {
            store.command(&[b"EXISTS", b"a"]).unwrap() == Value::Int(0)
        })
        .await;
    }
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn one_holder_whatever_gets_lost_on_the_way_to_five_stores() {
    for seed in 0..SEEDS {
        churn(seed, &[LockMode::Exclusive]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn readers_or_a_writer_whatever_gets_lost_on_the_way_to_five_stores() {
    for seed in 0..SEEDS {
        churn(seed, &[LockMode::Read, LockMode::Read, LockMode::Write]).await;
    }
}
