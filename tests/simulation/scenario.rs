//! What the scenarios share that have no history: semaphores, latches,
//! elections and negotiations among the same incidents.

use std::{ops::Range, sync::Arc, time::Duration};

use futures::future::join_all;
use lockkeeper_access::Account;
use lockkeeper_coordinator::{
    Acquire, Answer, Lease, LockName, Mode, OnDisconnect, Operation, Owner, Release, Reply, Stream,
};
use parking_lot::Mutex;
use rand::RngExt as _;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    mutants::Mutant,
    number, on_all_cores,
    plan::{Dice, Incident, Plan, pick},
    run::{self, watched},
    say,
    world::{Node, World},
};

const SEEDS: u64 = 2000;

/// A seed's run: what it came to, or what went wrong.
pub(crate) type Outcome<T> = Result<T, String>;

/// Runs the seeds that were asked for, none of which may fail.
pub(crate) fn expect_all<T: Send>(run: impl Fn(u64, Mutant) -> Outcome<T> + Sync) -> Vec<T> {
    let outcomes = Mutex::new(Vec::new());
    on_all_cores(seeds(), |seed| match run(seed, Mutant::None) {
        Ok(outcome) => outcomes.lock().push(outcome),
        Err(why) => panic!("{why}; replay with: make sim SEED={seed}"),
    });
    outcomes.into_inner()
}

fn seeds() -> Range<u64> {
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(SEEDS),
    }
}

/// Every breakage shows in one of the first seeds. One that cannot even run shows nothing there.
pub(crate) fn expect_noticed<T>(
    mutants: impl IntoIterator<Item = Mutant>,
    seeds: u64,
    run: impl Fn(u64, Mutant) -> Outcome<T>,
) {
    for mutant in mutants {
        let mut unruly = Vec::new();
        let noticed = (0..seeds).find_map(|seed| {
            let (outcome, failures) = watched(|| run(seed, mutant));
            let rule = outcome.err()?;
            if failures.is_empty() {
                return Some((seed, rule));
            }
            unruly = failures;
            None
        });
        let Some((seed, rule)) = noticed else {
            panic!("not noticed: {}, {unruly:?}", mutant.name());
        };
        say(&format!("{}: seed {seed}: {rule}", mutant.name()));
    }
}

#[test]
#[should_panic(expected = "not noticed")]
fn a_script_that_fails_is_no_evidence() {
    expect_noticed([Mutant::None], 2, |_, _| {
        run::has_failed("lock_acquire: the store refused: ERR".to_owned());
        Outcome::<()>::Err("two hold it".to_owned())
    });
}

/// A plan in which no operator takes anything away: that would be nobody's any more.
pub(crate) fn plan_without_operators(seed: u64) -> Plan {
    let mut plan = Plan::of(seed);
    plan.incidents
        .retain(|(_, incident)| !matches!(incident, Incident::Delete(_) | Incident::Flush));
    plan
}

/// Lets the incidents happen, and then waits until all clients have ended, for so many of the
/// longest leases and a minute. Returns what they return.
pub(crate) async fn until_ended<T>(
    world: &World,
    clients: Vec<JoinHandle<T>>,
    leases: u32,
) -> Outcome<Vec<T>> {
    world.run_incidents().await;
    let healing = world.plan.lease_max() * leases + Duration::from_secs(60);
    let ended = timeout(healing, join_all(clients)).await;
    let ended = ended.map_err(|_| "a client does not come to an end".to_owned())?;
    Ok(ended.into_iter().map(Result::unwrap).collect())
}

/// A session at some coordinator, after a pause. None if no coordinator takes it.
pub(crate) async fn session(
    world: &World,
    on_disconnect: OnDisconnect,
    dice: &mut Dice,
) -> Option<(Arc<Node>, Stream)> {
    sleep(world.plan.pause.mul_f64(dice.random_range(0.05..2.0))).await;
    let node = world.node(dice)?;
    let lease = Lease::new(pick(dice, &world.plan.leases), &world.limits).unwrap();
    let (account, client) = (Account::default(), "simulation".to_owned());
    let opened = node
        .coordinator
        .open(account, Some(lease), client, on_disconnect);
    let stream = opened.ok()?.stream;
    Some((node, stream))
}

/// An acquire that asks for nothing but the lock.
pub(crate) fn acquire(
    world: &World,
    name: &str,
    mode: Mode,
    owner: &Owner,
    wait: Option<Duration>,
) -> Acquire {
    Acquire {
        name: LockName::parse(name, &world.limits).unwrap(),
        mode,
        owner: owner.clone(),
        lease: None,
        wait,
        request_id: None,
        min_replica_acks: 0,
        note: None,
        hold_at_least: None,
        lock_delay: None,
        account: Account::default(),
        end_on_deadlock: false,
        preferred: false,
    }
}

/// A release of one hold.
pub(crate) fn release(world: &World, name: &str, mode: Mode, owner: &Owner) -> Release {
    Release {
        name: LockName::parse(name, &world.limits).unwrap(),
        mode,
        owner: owner.clone(),
        request_id: None,
    }
}

/// The last answer, or none if the coordinator is gone.
pub(crate) async fn ask(node: &Node, operation: Operation) -> Option<Answer> {
    let (to, mut answers) = mpsc::channel(3);
    let reply = Reply {
        op_id: 1,
        to: to.into(),
        cancel: None,
        slot: None,
        account: Account::default(),
    };
    node.coordinator.submit(operation, reply);
    let last = async {
        loop {
            match answers.recv().await?.1 {
                answer if answer.is_about_wait() => {}
                answer => return Some(answer),
            }
        }
    };
    tokio::select! {
        biased;
        () = node.down.cancelled() => None,
        answer = last => answer.map(|answer| *answer),
    }
}
