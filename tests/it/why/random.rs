//! Owners that take locks in any order: what is named is a deadlock, and each deadlock is named.

use std::collections::BTreeMap;

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{SessionId, Watched, What};
use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};

use super::{JOB, watch};
use crate::support::prelude::*;

const SEEDS: u64 = 30;
const OWNERS: usize = 4;
const LOCKS: [&str; 4] = ["a", "b", "c", "d"];
const LASTS: Duration = Duration::from_secs(60);

/// From the last wait of a deadlock to its name.
const NAMED_WITHIN: Duration = Duration::from_secs(2);

/// Between what happens in the store and what the test sees of it.
const MARGIN: Duration = Duration::from_millis(20);

/// When an owner held a lock, or waited for it.
#[derive(Clone, Debug)]
struct Spell {
    owner: usize,
    lock: &'static str,
    is_hold: bool,
    from: Instant,
    until: Instant,
}

/// Waits in a cycle, by owner, and from when to when it was one.
#[derive(Debug)]
struct Ring {
    waits: BTreeMap<usize, &'static str>,
    from: Instant,
    until: Instant,
}

type Log = Arc<Mutex<Vec<Spell>>>;

/// A wait that was reported as part of a deadlock: the owner, the lock, and when.
type Report = (usize, String, Instant);

/// Takes one to three locks in any order, each with a limit to the wait, and releases them.
async fn round(session: &mut Session, owner: usize, dice: &mut StdRng, log: &Log) {
    let mut locks = LOCKS;
    locks.shuffle(dice);
    let mut held = Vec::new();
    for lock in &locks[..dice.random_range(1..=3)] {
        let within = millis(dice.random_range(100..8000));
        let from = Instant::now();
        let wait = acquire_request(lock, JOB).within(within);
        let op_id = session.send(Request::Acquire(wait));
        let is_granted = matches!(session.end(op_id).await, Response::Granted(_));
        let until = Instant::now();
        log.lock().push(Spell {
            owner,
            lock,
            is_hold: false,
            from,
            until,
        });
        if !is_granted {
            break;
        }
        held.push((*lock, until));
        tokio::time::sleep(millis(dice.random_range(0..800))).await;
    }
    for (lock, from) in held {
        log.lock().push(Spell {
            owner,
            lock,
            is_hold: true,
            from,
            until: Instant::now(),
        });
        let release = pb::ReleaseRequest::named(lock).by(JOB);
        let op_id = session.send(Request::Release(release));
        session.answer(op_id).await;
    }
}

/// The cycles of this moment.
fn rings_at(spells: &[Spell], at: Instant) -> Vec<BTreeMap<usize, &'static str>> {
    let now = |spell: &&Spell| spell.from <= at && at < spell.until;
    let (holds, waits): (Vec<_>, Vec<_>) = spells.iter().filter(now).partition(|it| it.is_hold);
    let holders: BTreeMap<_, _> = holds.iter().map(|it| (it.lock, it.owner)).collect();
    let waits: BTreeMap<_, _> = waits.iter().map(|it| (it.owner, it.lock)).collect();
    let mut rings = Vec::new();
    for first in waits.keys() {
        let (mut ring, mut owner) = (BTreeMap::new(), *first);
        while let Some(lock) = waits.get(&owner)
            && ring.insert(owner, *lock).is_none()
            && let Some(holder) = holders.get(lock)
        {
            owner = *holder;
        }
        if owner == *first && ring.len() > 1 && !rings.contains(&ring) {
            rings.push(ring);
        }
    }
    rings
}

/// The cycles there were.
fn rings(spells: &[Spell]) -> Vec<Ring> {
    let mut moments: Vec<_> = spells.iter().flat_map(|it| [it.from, it.until]).collect();
    moments.sort_unstable();
    moments.dedup();
    let mut rings: Vec<Ring> = Vec::new();
    for pair in moments.windows(2) {
        for waits in rings_at(spells, pair[0]) {
            let same = |it: &&mut Ring| it.until == pair[0] && it.waits == waits;
            match rings.iter_mut().find(same) {
                Some(ring) => ring.until = pair[1],
                None => rings.push(Ring {
                    waits,
                    from: pair[0],
                    until: pair[1],
                }),
            }
        }
    }
    rings
}

/// Runs a seed. Returns the spells and what was named.
async fn run(seed: u64) -> (Vec<Spell>, Vec<Report>) {
    let world = World::of(2);
    let (log, named) = (Log::default(), Arc::new(Mutex::new(Vec::new())));
    let mut sessions = Vec::new();
    for owner in 0..OWNERS {
        sessions.push(world.client(owner % 2).await.open().await);
    }
    let digest = |it: &Session| SessionId::parse(&it.id()).unwrap().digest();
    let digests: Vec<_> = sessions.iter().map(digest).collect();
    for node in 0..2 {
        let (mut watcher, named, digests) =
            (watch(&world, node), Arc::clone(&named), digests.clone());
        spawn_detached("watcher", async move {
            while let Ok(told) = watcher.next().await {
                if let Watched::Delta(event) = told
                    && event.what == What::Deadlock
                {
                    let digest = event.owner.session.unwrap().digest();
                    let owner = digests.iter().position(|it| *it == digest).unwrap();
                    let name = event.name.public().to_owned();
                    named.lock().push((owner, name, Instant::now()));
                }
            }
        });
    }
    let end = Instant::now() + LASTS;
    let lives = sessions
        .into_iter()
        .enumerate()
        .map(|(owner, mut session)| {
            let log = Arc::clone(&log);
            let mut dice = StdRng::seed_from_u64(seed * OWNERS as u64 + owner as u64);
            async move {
                while Instant::now() < end {
                    round(&mut session, owner, &mut dice, &log).await;
                    tokio::time::sleep(millis(dice.random_range(0..500))).await;
                }
            }
        });
    futures::future::join_all(lives).await;
    tokio::time::sleep(secs(1)).await;
    let spells = log.lock().clone();
    let named = named.lock().clone();
    (spells, named)
}

#[tokio::test(start_paused = true)]
async fn what_is_named_is_a_deadlock_and_each_that_lasts_is_named() {
    let (mut deadlocks, mut chains) = (0, 0);
    for seed in 0..SEEDS {
        let (spells, named) = run(seed).await;
        let rings = rings(&spells);
        for (owner, name, at) in &named {
            let is_one = rings.iter().any(|ring| {
                ring.waits.get(owner) == Some(&name.as_str())
                    && ring.from <= *at
                    && *at <= ring.until + secs(1)
            });
            assert!(is_one, "seed {seed}: {owner} waits for {name}: no deadlock");
        }
        for ring in &rings {
            let by = ring.from + NAMED_WITHIN + MARGIN;
            if ring.until < by {
                chains += 1;
                continue;
            }
            deadlocks += 1;
            for (owner, lock) in &ring.waits {
                let is_named = named.iter().any(|(of, name, at)| {
                    (of, name.as_str()) == (owner, *lock) && *at > ring.from && *at <= by
                });
                assert!(is_named, "seed {seed}: {owner}: {ring:?} is not named");
            }
        }
    }
    assert!(deadlocks > 20 && chains > 20, "{deadlocks}, {chains}");
}
