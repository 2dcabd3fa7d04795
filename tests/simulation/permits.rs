//! Semaphores among the same incidents: whatever goes wrong, at no moment are more permits held
//! than there are, and at the end all are free.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Account;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{
    AcquirePermits, Answer, Lease, LockName, Notice, OnDisconnect, Operation, Owner, PermitCount,
    PermitGrant, ReleasePermits, RequestId,
};
use lockkeeper_store::script::{Config, Scripts};
use parking_lot::Mutex;
use rand::RngExt as _;
use tokio::time::{Instant, sleep, timeout};

use super::{
    mutants::{Mutant, Story},
    plan::{Dice, Plan, happens, millis, pick},
    run::paused,
    scenario::{self, Outcome, ask, expect_all, expect_noticed, plan_without_operators},
    world::{Node, World},
};

const MUTANT_SEEDS: u64 = 200;
const NAME: &str = "pool";
const TOTAL: u32 = 4;

/// What clients believed to hold: from, until, how many.
type Holds = Arc<Mutex<Vec<(Instant, Instant, u32)>>>;

#[test]
fn no_seed_holds_more_permits_than_there_are() {
    let grants: usize = expect_all(run).into_iter().sum();
    assert!(grants > 0, "nobody got anything");
}

#[test]
fn a_semaphore_that_is_broken_on_purpose_is_noticed() {
    expect_noticed(Story::Permits.mutants(), MUTANT_SEEDS, run);
}

#[test]
fn more_than_there_are_is_found() {
    let now = Instant::now();
    let hold = |from, until, permits| (now + millis(from), now + millis(until), permits);
    assert_eq!(most(&[hold(0, 5, 2), hold(5, 9, 3), hold(6, 7, 1)]), 4);
    assert_eq!(most(&[hold(0, 5, 2), hold(4, 9, 3)]), 5);
}

/// How many grants there were.
fn run(seed: u64, mutant: Mutant) -> Outcome<usize> {
    paused(live(plan_without_operators(seed), mutant))
}

async fn live(plan: Plan, mutant: Mutant) -> Outcome<usize> {
    let world = World::new(plan, mutant);
    let (host, _wakes) = world.ledger.store().connect();
    let config = Config {
        idle_token_retention: Duration::from_secs(3600),
        request_retention: Duration::from_secs(60),
        fair_waiter_timeout: world.plan.patience,
        writer_hold_back: world.plan.hold_back,
        holders_per_lock_max: 10_000,
        permits_per_name_max: 10_000,
        adopts_counters: true,
        native_commands: false,
    };
    let scripts = Scripts::new(host, config);
    scripts.set_permits(NAME, TOTAL, true).await.unwrap();
    let holds = Holds::default();
    let clients = (0..6).map(|client| {
        let dice = world.plan.dice(1000 + client);
        let (world, holds) = (world.clone(), holds.clone());
        spawn_detached("client", async move {
            if client < 3 {
                sessionless(world, holds, client, dice).await;
            } else {
                in_sessions(world, holds, dice).await;
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    scenario::until_ended(&world, clients, 4).await?;
    sleep(world.plan.lease_max() * 2).await;
    let holds = std::mem::take(&mut *holds.lock());
    let most = most(&holds);
    if most > TOTAL {
        return Err(format!("{most} of {TOTAL} permits are held"));
    }
    let seen = scripts.inspect_semaphore(NAME, u32::MAX).await.unwrap();
    if (seen.total, seen.available) != (TOTAL, TOTAL.into()) {
        return Err(format!("at the end: {seen:?}"));
    }
    Ok(holds.len())
}

/// The most that was held at one moment; what ends at a moment is not held any more.
fn most(holds: &[(Instant, Instant, u32)]) -> u32 {
    let held_at = |at: Instant| {
        let held = holds
            .iter()
            .filter(|(from, until, _)| *from <= at && at < *until);
        held.map(|(_, _, permits)| permits).sum()
    };
    let starts = holds.iter().map(|(from, _, _)| held_at(*from));
    starts.max().unwrap_or(0)
}

/// Takes permits with leases, and sometimes never gives them back.
async fn sessionless(world: World, holds: Holds, client: u64, mut dice: Dice) {
    for round in 0.. {
        sleep(world.plan.pause.mul_f64(dice.random_range(0.05..2.0))).await;
        if world.healed.is_cancelled() {
            return;
        }
        let owner = Owner::sessionless(&format!("o{client}-{round}"), &world.limits).unwrap();
        let lease = pick(&mut dice, &world.plan.leases);
        let Some(node) = world.node(&mut dice) else {
            continue;
        };
        let request_id = format!("r{client}-{round}");
        let mut request = acquire(&world, &owner, Some(lease), &mut dice);
        if dice.random() {
            request.request_id = RequestId::parse(&request_id, &world.limits).unwrap();
        }
        let mut grant = take(&node, request.clone(), &mut dice).await;
        if grant.is_none()
            && request.request_id.is_some()
            && let Some(node) = world.node(&mut dice)
        {
            grant = take(&node, request, &mut dice).await;
        }
        let Some(grant) = grant else { continue };
        let from = Instant::now();
        sleep(lease.mul_f64(dice.random_range(0.0..1.3))).await;
        let until = grant.safe_until.min(Instant::now());
        holds.lock().push((from, until, count(&grant)));
        if dice.random_ratio(3, 4) {
            release(&world, &owner, &grant, &mut dice).await;
        }
    }
}

/// Takes watched permits in sessions, whose streams break or are closed.
async fn in_sessions(world: World, holds: Holds, mut dice: Dice) {
    while !world.healed.is_cancelled() {
        let on_disconnect = pick(&mut dice, &[OnDisconnect::Keep, OnDisconnect::Release]);
        let session = scenario::session(&world, on_disconnect, &mut dice).await;
        let Some((node, stream)) = session else {
            continue;
        };
        let session = stream.id().clone();
        let owner = Owner::in_session(session, "", &world.limits).unwrap();
        for _ in 0..dice.random_range(1..5) {
            let request = acquire(&world, &owner, None, &mut dice);
            let Some(grant) = take(&node, request, &mut dice).await else {
                break;
            };
            let from = Instant::now();
            let work = stream.lease().mul_f64(dice.random_range(0.0..3.0));
            let lost = async {
                loop {
                    match stream.notice().await {
                        Ok(Notice::PermitsLost(lost, _)) if lost.ids == grant.ids => return,
                        Ok(_) => {}
                        Err(_ended) => return,
                    }
                }
            };
            let held = tokio::select! {
                biased;
                () = node.down.cancelled() => None,
                () = lost => Some(false),
                () = sleep(work) => Some(true),
            };
            holds.lock().push((from, Instant::now(), count(&grant)));
            match held {
                None => break,
                Some(false) => {}
                Some(true) => release(&world, &owner, &grant, &mut dice).await,
            }
        }
        if happens(&mut dice, 500) && !node.down.is_cancelled() {
            let _ = timeout(world.plan.lease_max(), stream.close()).await;
        }
    }
}

fn count(grant: &PermitGrant) -> u32 {
    u32::try_from(grant.ids.len()).unwrap()
}

fn acquire(
    world: &World,
    owner: &Owner,
    lease: Option<Duration>,
    dice: &mut Dice,
) -> AcquirePermits {
    AcquirePermits {
        name: LockName::parse(NAME, &world.limits).unwrap(),
        owner: owner.clone(),
        permits: PermitCount::new(dice.random_range(1..=TOTAL)).unwrap(),
        lease: lease.map(|lease| Lease::new(lease, &world.limits).unwrap()),
        wait: Some(millis(dice.random_range(0..4000))),
        request_id: None,
        min_replica_acks: 0,
        account: Account::default(),
    }
}

/// Some clients lose interest before the answer comes.
async fn take(node: &Node, request: AcquirePermits, dice: &mut Dice) -> Option<PermitGrant> {
    let interest = if happens(dice, 200) {
        millis(dice.random_range(0..3000))
    } else {
        Duration::from_secs(3600)
    };
    let operation = Operation::AcquirePermits(request);
    match timeout(interest, ask(node, operation)).await.ok()?? {
        Answer::PermitsGranted(delivery) => delivery.take().ok(),
        _ => None,
    }
}

async fn release(world: &World, owner: &Owner, grant: &PermitGrant, dice: &mut Dice) {
    let Some(node) = world.node(dice) else { return };
    let ids = if dice.random() {
        grant.ids.to_vec()
    } else {
        Vec::new()
    };
    let operation = Operation::ReleasePermits(ReleasePermits {
        name: grant.name.clone(),
        owner: owner.clone(),
        ids,
        request_id: None,
    });
    ask(&node, operation).await;
}
