//! Clients that take several locks in one order, among the same incidents, and never hear of a
//! deadlock. Then one that waits for a lock whose holder's wait has died with its coordinator: no
//! deadlock either. At the end two that wait for each other, and soon hear of it.

use std::{sync::Arc, time::Duration};

use futures::future::{join, join_all};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{
    Answer, Mode, NotGranted, OnDisconnect, Operation, Owner, Stream, WaitEnd,
};
use parking_lot::Mutex;
use rand::RngExt as _;
use tokio::time::{Instant, sleep, timeout};

use super::{
    mutants::{Mutant, Story},
    plan::{Dice, Plan, millis},
    run::paused,
    scenario::{self, Outcome, expect_all, expect_noticed, plan_without_operators},
    world::{Node, World},
};

const MUTANT_SEEDS: u64 = 1500;
const NAMES: [&str; 3] = ["a", "b", "c"];
const CLIENTS: u64 = 5;

/// How soon a deadlock is named where a call of the store takes no time.
const NAMED_WITHIN: Duration = Duration::from_secs(2);

/// So long after it began, a wait is known to the other coordinators.
const SHARED_AFTER: Duration = Duration::from_secs(2);

/// How long a lock is waited for that becomes free, or is part of a deadlock.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls of the store one after the other until then.
const CALLS: u32 = 12;

/// A session and its only owner.
struct Task<'a> {
    world: &'a World,
    node: Arc<Node>,
    stream: Stream,
    owner: Owner,
}

/// How an acquire ended.
#[derive(Debug, PartialEq)]
enum End {
    Granted,
    NotGranted,
    Deadlock,
    /// Not answered, or with an error: it may be granted for a while.
    Unknown,
}

#[test]
fn no_seed_names_a_deadlock_that_is_none() {
    let seen = expect_all(run);
    assert!(seen.iter().any(|it| *it), "none was over two coordinators");
}

#[test]
fn a_look_for_deadlocks_that_is_broken_on_purpose_is_noticed() {
    expect_noticed(Story::Deadlocks.mutants(), MUTANT_SEEDS, run);
}

fn run(seed: u64, mutant: Mutant) -> Outcome<bool> {
    paused(live(plan_without_operators(seed), mutant))
}

/// Returns whether the deadlock at the end was over two coordinators.
async fn live(plan: Plan, mutant: Mutant) -> Outcome<bool> {
    let world = World::new(plan, mutant);
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let clients = (0..CLIENTS).map(|number| {
        let (world, wrong) = (world.clone(), Arc::clone(&wrong));
        let dice = world.plan.dice(9000 + number);
        spawn_detached("ordered", take_in_order(world, wrong, dice))
    });
    let clients: Vec<_> = clients.collect();
    scenario::until_ended(&world, clients, 8).await?;
    if let Some(wrong) = wrong.lock().pop() {
        return Err(wrong);
    }
    sleep(world.plan.lease_max() * 2).await;
    if world.plan.nodes > 1 {
        dead_wait(&world).await?;
    }
    deadlock(&world).await
}

/// Opens one session after the other, and takes a few locks in each, always in the same order.
async fn take_in_order(world: World, wrong: Arc<Mutex<Vec<String>>>, mut dice: Dice) {
    while !world.healed.is_cancelled() {
        let Some(task) = Task::begin(&world, &mut dice).await else {
            continue;
        };
        for _ in 0..dice.random_range(1..4) {
            match task.round(&mut dice).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => wrong.lock().push(why),
            }
        }
        let _ = timeout(world.plan.lease_max(), task.stream.close()).await;
    }
}

/// Two tasks that hold a lock each, at two coordinators if there are two.
async fn two_tasks<'a>(world: &'a World, mut dice: Dice) -> Outcome<Vec<Task<'a>>> {
    let mut tasks: Vec<Task<'a>> = Vec::new();
    while tasks.len() < 2 {
        let Some(task) = Task::begin(world, &mut dice).await else {
            continue;
        };
        let is_other = |it: &Task<'_>| it.node.number != task.node.number;
        if world.plan.nodes == 1 || tasks.iter().all(is_other) {
            tasks.push(task);
        }
    }
    for (task, name) in tasks.iter().zip(NAMES) {
        if task.acquire(name, PATIENCE).await != End::Granted {
            return Err(format!("{name} is not free at the end"));
        }
    }
    Ok(tasks)
}

/// A task waits for the other one's lock when its coordinator dies. The other one waits for its
/// lock then, until that expires.
async fn dead_wait(world: &World) -> Outcome<()> {
    let tasks = two_tasks(world, world.plan.dice(9998)).await?;
    let [dying, other] = &tasks[..] else {
        unreachable!("there are two");
    };
    let waits = dying.acquire(NAMES[1], PATIENCE);
    let outlives = async {
        sleep(SHARED_AFTER).await;
        world.crash(&dying.node);
        let end = other.acquire(NAMES[0], PATIENCE).await;
        for name in NAMES {
            other.release(name).await;
        }
        end
    };
    match join(waits, outlives).await {
        (End::Unknown, End::Granted) => Ok(()),
        ends => Err(format!("a wait that died with its coordinator: {ends:?}")),
    }
}

/// Two tasks wait for each other.
async fn deadlock(world: &World) -> Outcome<bool> {
    let tasks = two_tasks(world, world.plan.dice(9999)).await?;
    let asked = Instant::now();
    let ends = tasks.iter().zip([NAMES[1], NAMES[0]]);
    let ends = join_all(ends.map(|(task, name)| async move {
        let end = task.acquire(name, PATIENCE).await;
        // The one that is told gives way to the other one.
        for name in NAMES {
            task.release(name).await;
        }
        (end, asked.elapsed())
    }));
    let ends = ends.await;
    let allowed = NAMED_WITHIN + world.plan.latency * 2 * CALLS;
    match ends.iter().find(|(end, _)| *end == End::Deadlock) {
        Some((_, after)) if *after <= allowed => Ok(tasks[0].node.number != tasks[1].node.number),
        Some((_, after)) => Err(format!("a deadlock is named after {after:?}")),
        None => Err(format!("a deadlock is not seen: {ends:?}")),
    }
}

// === impl Task ===

impl<'a> Task<'a> {
    async fn begin(world: &'a World, dice: &mut Dice) -> Option<Self> {
        let (node, stream) = scenario::session(world, OnDisconnect::Keep, dice).await?;
        let owner = Owner::in_session(stream.id().clone(), "task", &world.limits).unwrap();
        Some(Self {
            world,
            node,
            stream,
            owner,
        })
    }

    /// Takes a few locks in order and releases them. Returns whether it surely holds none: one that
    /// may have kept a lock would take the next ones out of order.
    async fn round(&self, dice: &mut Dice) -> Outcome<bool> {
        let (mut held, mut is_known) = (Vec::new(), true);
        for name in NAMES {
            if dice.random_ratio(1, 3) {
                continue;
            }
            match self.acquire(name, millis(dice.random_range(0..6000))).await {
                End::Granted => {
                    held.push(name);
                    sleep(millis(dice.random_range(0..2500))).await;
                }
                End::NotGranted => {}
                End::Deadlock => {
                    let node = self.node.number;
                    return Err(format!("a deadlock that is none, at {node}"));
                }
                End::Unknown => is_known = false,
            }
        }
        for name in held {
            is_known &= self.release(name).await;
        }
        Ok(is_known)
    }

    async fn acquire(&self, name: &str, wait: Duration) -> End {
        let mut acquire =
            scenario::acquire(self.world, name, Mode::Exclusive, &self.owner, Some(wait));
        acquire.end_on_deadlock = true;
        match scenario::ask(&self.node, Operation::Acquire(acquire)).await {
            Some(Answer::Granted(delivery)) => match delivery.take() {
                Ok(_) => End::Granted,
                Err(_) => End::Unknown,
            },
            Some(Answer::NotGranted(NotGranted {
                why: WaitEnd::Deadlock,
                ..
            })) => End::Deadlock,
            Some(Answer::NotGranted(_)) => End::NotGranted,
            _ => End::Unknown,
        }
    }

    /// Returns whether the lock surely is released.
    async fn release(&self, name: &str) -> bool {
        let release = scenario::release(self.world, name, Mode::Exclusive, &self.owner);
        let answer = scenario::ask(&self.node, Operation::Release(release)).await;
        matches!(answer, Some(Answer::Released(0)))
    }
}
