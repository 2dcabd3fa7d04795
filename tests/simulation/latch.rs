//! A latch among the same incidents: it opens when everybody has counted down and not before,
//! however often a call has to be repeated.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{
    Answer, AwaitLatch, CountDown, LockName, Operation, RequestId, SetCount,
};
use rand::RngExt as _;
use tokio::time::sleep;

use super::{
    mutants::{Mutant, Story},
    plan::{Dice, Plan, millis},
    run::paused,
    scenario::{self, Outcome, expect_all, expect_noticed, plan_without_operators},
    world::World,
};

const MUTANT_SEEDS: u64 = 400;
const NAME: &str = "start";
const COUNTERS: u32 = 4;
const COUNTS_EACH: u32 = 5;
const WAITERS: u32 = 4;

/// How many counts have begun to be taken off.
type Begun = Arc<AtomicU32>;

#[test]
fn no_seed_opens_a_latch_early_or_never() {
    expect_all(run);
}

#[test]
fn a_latch_that_is_broken_on_purpose_is_noticed() {
    expect_noticed(Story::Latches.mutants(), MUTANT_SEEDS, run);
}

fn run(seed: u64, mutant: Mutant) -> Outcome<()> {
    paused(live(plan_without_operators(seed), mutant))
}

async fn live(plan: Plan, mutant: Mutant) -> Outcome<()> {
    let world = World::new(plan, mutant);
    let begun = Begun::default();
    let count = COUNTERS * COUNTS_EACH;
    set(&world, count).await;
    let counters = (0..COUNTERS).map(|client| {
        let (world, begun) = (world.clone(), Arc::clone(&begun));
        let dice = world.plan.dice(2000 + u64::from(client));
        spawn_detached("counter", count_down(world, begun, client, dice))
    });
    let waiters = (0..WAITERS).map(|client| {
        let (world, begun) = (world.clone(), Arc::clone(&begun));
        let dice = world.plan.dice(3000 + u64::from(client));
        spawn_detached("waiter", wait(world, begun, dice))
    });
    let clients: Vec<_> = counters.chain(waiters).collect();
    let ended = scenario::until_ended(&world, clients, 4).await;
    let ended = ended.map_err(|why| {
        let begun = begun.load(Ordering::Relaxed);
        format!("{why} after {begun} counts of {count}")
    })?;
    let early = ended.into_iter().flatten().min();
    early.map_or(Ok(()), |begun| {
        Err(format!("it was open after {begun} of {count}"))
    })
}

async fn set(world: &World, count: u32) {
    let mut dice = world.plan.dice(1999);
    loop {
        let set = Operation::SetCount(SetCount {
            name: name(world),
            count,
            ttl: None,
            request_id: None,
        });
        if ask(world, &mut dice, set).await.is_some() {
            return;
        }
        sleep(millis(20)).await;
    }
}

/// Each count again and again, until it is known to be taken off.
async fn count_down(world: World, begun: Begun, client: u32, mut dice: Dice) -> Option<u32> {
    for round in 0..COUNTS_EACH {
        sleep(world.plan.pause.mul_f64(dice.random_range(0.05..2.0))).await;
        begun.fetch_add(1, Ordering::Relaxed);
        let id = format!("c{client}-{round}");
        let request = CountDown {
            name: name(&world),
            by: 1,
            request_id: RequestId::parse(&id, &world.limits).unwrap(),
        };
        loop {
            let operation = Operation::CountDown(request.clone());
            match ask(&world, &mut dice, operation).await {
                Some(Answer::CountedDown(_)) => break,
                _ => sleep(millis(dice.random_range(1..200))).await,
            }
        }
    }
    None
}

/// Waits, by many calls, until it is told that the latch is open. How many had begun to count if
/// that was not all.
async fn wait(world: World, begun: Begun, mut dice: Dice) -> Option<u32> {
    loop {
        let wait = Operation::AwaitLatch(AwaitLatch {
            name: name(&world),
            session: None,
            wait: Some(millis(dice.random_range(0..4000))),
        });
        if let Some(Answer::LatchOpened(_)) = ask(&world, &mut dice, wait).await {
            let begun = begun.load(Ordering::Relaxed);
            return (begun < COUNTERS * COUNTS_EACH).then_some(begun);
        }
        sleep(millis(dice.random_range(1..200))).await;
    }
}

fn name(world: &World) -> LockName {
    LockName::parse(NAME, &world.limits).unwrap()
}

/// The answer, unless it is an error or the coordinator is gone.
async fn ask(world: &World, dice: &mut Dice, operation: Operation) -> Option<Answer> {
    let node = world.node(dice)?;
    match scenario::ask(&node, operation).await? {
        Answer::Failed(_) => None,
        answer => Some(answer),
    }
}
