//! A lock whose holders are asked to yield, and lose it if they do not, among the same incidents:
//! never two holders, nobody preempted who was not asked, and nobody before the time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockkeeper_access::Account;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{
    Answer, Grant, LockName, LostReason, Mode, Notice, OnDisconnect, Operation, Owner, Reason,
    RequestYield, Stream,
};
use parking_lot::Mutex;
use rand::RngExt as _;
use tokio::time::{Instant, sleep};

use super::{
    mutants::{Mutant, Story},
    plan::{Dice, Plan, millis},
    run::paused,
    scenario::{self, Outcome, expect_all, expect_noticed, plan_without_operators},
    world::{Node, World},
};

const MUTANT_SEEDS: u64 = 400;
const NAME: &str = "preempted";
const HOLDERS: u64 = 3;

#[derive(Debug, Default)]
struct Seen {
    reigns: Vec<Reign>,
    /// By their reasons, which no two have in common.
    requests: BTreeMap<String, Request>,
}

/// What a client believed of a grant.
#[derive(Debug)]
struct Reign {
    token: u64,
    owner: String,
    from: Instant,
    until: Instant,
    /// The reasons of the requests that it was told of.
    told: Vec<String>,
    /// The reason of the request that ended it.
    preempted: Option<String>,
}

#[derive(Debug)]
struct Request {
    at: Instant,
    within: Duration,
    /// The owners that were asked; none if the answer is not known.
    asked: Option<Vec<String>>,
}

type Shared = Arc<Mutex<Seen>>;

#[test]
fn no_seed_preempts_who_was_not_asked() {
    let seen = expect_all(run);
    let counts = [0, 1].map(|at: usize| seen.iter().map(|it| it[at]).sum::<usize>());
    assert!(counts.iter().all(|it| *it > 0), "not seen: {counts:?}");
}

#[test]
fn a_preemption_that_is_broken_on_purpose_is_noticed() {
    expect_noticed(Story::Preemptions.mutants(), MUTANT_SEEDS, run);
}

/// Returns how many grants were preempted, and how many of their holders were told before. In every
/// fourth seed nothing goes wrong.
fn run(seed: u64, mutant: Mutant) -> Outcome<[usize; 2]> {
    let mut plan = plan_without_operators(seed);
    if seed.is_multiple_of(4) {
        plan.incidents.clear();
        (plan.messages, plan.calls) = Default::default();
    }
    paused(live(plan, mutant))
}

async fn live(plan: Plan, mutant: Mutant) -> Outcome<[usize; 2]> {
    let world = World::new(plan, mutant);
    let shared = Shared::default();
    let holders = (0..HOLDERS).map(|number| {
        let (world, shared) = (world.clone(), Arc::clone(&shared));
        let dice = world.plan.dice(7000 + number);
        spawn_detached("holder", hold_again(world, shared, number, dice))
    });
    let mut clients: Vec<_> = holders.collect();
    let dice = world.plan.dice(8000);
    let requests = request_again(world.clone(), Arc::clone(&shared), dice);
    clients.push(spawn_detached("requests", requests));
    scenario::until_ended(&world, clients, 8).await?;
    let Seen {
        mut reigns,
        requests,
    } = std::mem::take(&mut *shared.lock());
    reigns.sort_by_key(|reign| reign.token);
    for pair in reigns.windows(2) {
        let [before, next] = pair else { continue };
        if before.token == next.token || next.from < before.until {
            let tokens = (before.token, next.token);
            return Err(format!("two holders at once: {tokens:?}"));
        }
    }
    let is_calm = world.plan.seed.is_multiple_of(4);
    let mut counts = [0, 0];
    for reign in &reigns {
        let Some(reason) = &reign.preempted else {
            continue;
        };
        let was_told = reign.told.contains(reason);
        counts[0] += 1;
        counts[1] += usize::from(was_told);
        as_requested(reign, &requests[reason])?;
        if is_calm && !was_told {
            return Err(format!("preempted without being told first: {reign:?}"));
        }
    }
    Ok(counts)
}

fn as_requested(reign: &Reign, request: &Request) -> Outcome<()> {
    let asked = request.asked.as_ref();
    if asked.is_some_and(|asked| !asked.contains(&reign.owner)) {
        return Err(format!("preempted without having been asked: {reign:?}"));
    }
    if reign.until < request.at + request.within {
        return Err(format!("preempted before the time: {reign:?}"));
    }
    Ok(())
}

/// Opens one session after the other, and holds the lock in each a few times.
async fn hold_again(world: World, shared: Shared, number: u64, mut dice: Dice) {
    let mut round = 0;
    while !world.healed.is_cancelled() {
        let session = scenario::session(&world, OnDisconnect::Keep, &mut dice).await;
        let Some((node, stream)) = session else {
            continue;
        };
        for _ in 0..dice.random_range(1..5) {
            round += 1;
            let label = format!("{number}-{round}");
            let owner = Owner::in_session(stream.id().clone(), &label, &world.limits).unwrap();
            let wait = Some(millis(dice.random_range(0..4000)));
            let acquire = scenario::acquire(&world, NAME, Mode::Exclusive, &owner, wait);
            let answer = scenario::ask(&node, Operation::Acquire(acquire)).await;
            let Some(Answer::Granted(delivery)) = answer else {
                continue;
            };
            let Ok(grant) = delivery.take() else { continue };
            let work = grant.lease.mul_f64(dice.random_range(0.0..3.0));
            let yields = dice.random_ratio(1, 3);
            let (reign, goes_on) = hold(&world, (&node, &stream), &grant, work, yields).await;
            shared.lock().reigns.push(reign);
            if !goes_on {
                break;
            }
        }
    }
}

/// Holds the lock for a time, or until it is asked to yield and does so. False if the coordinator
/// is gone.
async fn hold(
    world: &World,
    (node, stream): (&Node, &Stream),
    grant: &Grant,
    work: Duration,
    yields: bool,
) -> (Reign, bool) {
    let now = Instant::now();
    let mut reign = Reign {
        token: grant.fencing_token,
        owner: grant.owner.field().to_owned(),
        from: now,
        until: now,
        told: Vec::new(),
        preempted: None,
    };
    // Whether it still has the lock.
    let ended = async {
        loop {
            match stream.notice().await {
                Ok(Notice::Lost(lost, why)) if lost.fencing_token == grant.fencing_token => {
                    if let LostReason::ForceReleased { reason, .. } = why {
                        reign.preempted = Some(reason.to_string());
                    }
                    return false;
                }
                Ok(Notice::YieldRequested(asked, request)) if asked.owner == grant.owner => {
                    reign.told.push(request.reason.clone());
                    if yields {
                        return true;
                    }
                }
                Ok(_) => {}
                Err(_ended) => return false,
            }
        }
    };
    let has_it = tokio::select! {
        biased;
        () = node.down.cancelled() => None,
        has_it = ended => Some(has_it),
        () = sleep(work) => Some(true),
    };
    reign.until = Instant::now();
    if has_it == Some(true) {
        let release = scenario::release(world, NAME, Mode::Exclusive, &grant.owner);
        scenario::ask(node, Operation::Release(release)).await;
    }
    (reign, has_it.is_some())
}

/// Asks whoever holds the lock to yield it, here and there.
async fn request_again(world: World, shared: Shared, mut dice: Dice) {
    let mut round = 0;
    while !world.healed.is_cancelled() {
        sleep(world.plan.pause.mul_f64(dice.random_range(0.5..4.0))).await;
        let Some(node) = world.node(&mut dice) else {
            continue;
        };
        round += 1;
        let (at, reason) = (Instant::now(), round.to_string());
        let within = millis(dice.random_range(100..2500));
        let request = Request {
            at,
            within,
            asked: None,
        };
        shared.lock().requests.insert(reason.clone(), request);
        let request = RequestYield {
            name: LockName::parse(NAME, &world.limits).unwrap(),
            by: "the plan".to_owned(),
            reason: Reason::parse(&reason).unwrap(),
            within,
            preempt: Some(world.limits.lease_max),
            for_owner: None,
            account: Account::default(),
        };
        let requested = tokio::select! {
            biased;
            () = node.down.cancelled() => continue,
            requested = node.coordinator.request_yield(request) => requested,
        };
        let Ok(requested) = requested else { continue };
        let asked = requested.holders.iter();
        let asked = asked.map(|(holder, _)| holder.owner.field().to_owned());
        shared.lock().requests.entry(reason).and_modify(|it| {
            it.asked = Some(asked.collect());
        });
    }
}
