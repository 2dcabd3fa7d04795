//! An election among the same incidents: never two leaders at once, and every observer sees every
//! term and value in order, wherever it observes.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use lockkeeper_access::Account;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{
    Answer, Campaign, ElectionValue, Grant, LockName, Mode, Notice, Observed, OnDisconnect,
    Operation, Owner, Proclaim, Reason, RequestYield, Stream, Transfer,
};
use parking_lot::Mutex;
use rand::RngExt as _;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    ledger::Proclaimed,
    mutants::{Mutant, Story},
    plan::{Dice, Plan, millis, pick},
    run::paused,
    scenario::{self, Outcome, expect_all, expect_noticed, plan_without_operators},
    world::{Node, World},
};

const MUTANT_SEEDS: u64 = 400;
const NAME: &str = "leader";
const CANDIDATES: u64 = 4;
const OBSERVERS: u64 = 3;

/// When a candidate believed to lead, and in which term.
type Reigns = Arc<Mutex<Vec<(Instant, Instant, u64)>>>;

#[test]
fn no_seed_has_two_leaders_or_hides_a_term() {
    let seen: usize = expect_all(run).into_iter().sum();
    assert!(seen > 0, "no leader was ever seen");
}

#[test]
fn an_election_that_is_broken_on_purpose_is_noticed() {
    expect_noticed(Story::Elections.mutants(), MUTANT_SEEDS, run);
}

fn run(seed: u64, mutant: Mutant) -> Outcome<usize> {
    paused(live(plan_without_operators(seed), mutant))
}

/// Returns how many values were seen, by all observers together.
async fn live(plan: Plan, mutant: Mutant) -> Outcome<usize> {
    let world = World::new(plan, mutant);
    let (reigns, over) = (Reigns::default(), CancellationToken::new());
    let candidates = (0..CANDIDATES).map(|number| {
        let (world, reigns) = (world.clone(), Arc::clone(&reigns));
        let dice = world.plan.dice(4000 + number);
        spawn_detached("candidate", campaign_again(world, reigns, number, dice))
    });
    let candidates: Vec<_> = candidates.collect();
    let observers = (0..OBSERVERS).map(|number| {
        let dice = world.plan.dice(5000 + number);
        spawn_detached("observer", observe(world.clone(), over.clone(), dice))
    });
    let observers: Vec<_> = observers.collect();
    let dice = world.plan.dice(6000);
    let transfers = spawn_detached("transfers", transfer(world.clone(), over.clone(), dice));
    scenario::until_ended(&world, candidates, 4).await?;
    // All leases end, and every observer has looked since.
    sleep(world.plan.lease_max() * 2 + world.plan.poll_interval * 3 + Duration::from_secs(5)).await;
    over.cancel();
    transfers.await.unwrap();
    if let Some(named) = world.ledger.passed_over() {
        return Err(format!("{named:?} was to lead next, but another one does"));
    }
    let mut reigns = std::mem::take(&mut *reigns.lock());
    one_at_a_time(&mut reigns)?;
    let proclaimed = world.ledger.proclaimed();
    if let Some(stolen) = proclaimed.iter().find(|it| !it.by_leader) {
        return Err(format!("not proclaimed by the leader: {stolen:?}"));
    }
    let mut count = 0;
    for seen in join_all(observers).await {
        count += in_order(&proclaimed, &seen.unwrap())?;
    }
    Ok(count)
}

fn one_at_a_time(reigns: &mut [(Instant, Instant, u64)]) -> Outcome<()> {
    reigns.sort();
    for pair in reigns.windows(2) {
        let [(_, until, term), (from, _, next)] = pair else {
            continue;
        };
        if from < until {
            return Err(format!(
                "two leaders at once, in the terms {term} and {next}"
            ));
        }
        if next <= term {
            return Err(format!("the term {next} follows {term}"));
        }
    }
    Ok(())
}

/// What was seen is a part of what was proclaimed, without a gap, up to its end. An observer that
/// has not seen a leader yet begins anew with the present one. Returns how many values were seen.
fn in_order(proclaimed: &[Proclaimed], seen: &[Observed]) -> Outcome<usize> {
    let (mut next, mut count) = (None, 0);
    for event in seen {
        match event {
            Observed::NoLeader => {}
            Observed::Missed => return Err("nothing was missed".to_owned()),
            Observed::Leader(leader) => {
                let is_meant =
                    |it: &Proclaimed| (it.term, &it.value) == (leader.term, &leader.value);
                let at = proclaimed.iter().position(is_meant);
                let at = at.ok_or_else(|| format!("never proclaimed: {leader:?}"))?;
                if next.is_some_and(|next| next != at) {
                    return Err(format!("{next:?} was to be seen, and not {leader:?}"));
                }
                next = Some(at + 1);
                count += 1;
            }
        }
    }
    if next.is_some_and(|next| next != proclaimed.len()) {
        let last = proclaimed.last();
        return Err(format!("after {next:?} nothing was seen up to {last:?}"));
    }
    match seen.last() {
        Some(Observed::NoLeader) => Ok(count),
        other => Err(format!(
            "nobody leads at the end, but {other:?} is the last"
        )),
    }
}

/// Opens one session after the other, and campaigns in each a few times.
async fn campaign_again(world: World, reigns: Reigns, number: u64, mut dice: Dice) {
    let mut round = 0;
    while !world.healed.is_cancelled() {
        let on_disconnect = pick(&mut dice, &[OnDisconnect::Keep, OnDisconnect::Release]);
        let session = scenario::session(&world, on_disconnect, &mut dice).await;
        let Some((node, stream)) = session else {
            continue;
        };
        let owner =
            Owner::in_session(stream.id().clone(), &number.to_string(), &world.limits).unwrap();
        let mut past = None;
        for _ in 0..dice.random_range(1..5) {
            round += 1;
            let value = format!("{number}-{round}");
            let Some(grant) = elected(&world, &node, &owner, &value, &mut dice).await else {
                break;
            };
            let from = Instant::now();
            let work = stream.lease().mul_f64(dice.random_range(0.0..2.0));
            let terms = (past.replace(grant.fencing_token), grant.fencing_token);
            let is_held = lead(&world, &node, (&stream, &owner), terms, &value, work).await;
            reigns
                .lock()
                .push((from, Instant::now(), grant.fencing_token));
            match is_held {
                None => break,
                Some(false) => {}
                Some(true) => {
                    let resign = scenario::release(&world, NAME, Mode::Fair, &owner);
                    scenario::ask(&node, Operation::Resign(resign)).await;
                    let late = format!("{value}-gone");
                    proclaim(&world, &node, &owner, grant.fencing_token, &late).await;
                }
            }
        }
        if dice.random() && !node.down.is_cancelled() {
            let _ = timeout(world.plan.lease_max(), stream.close()).await;
        }
    }
}

/// Leads for a time, and proclaims meanwhile, in its past term too. Whether it still leads; none if
/// the coordinator is gone.
async fn lead(
    world: &World,
    node: &Node,
    (stream, owner): (&Stream, &Owner),
    (past, term): (Option<u64>, u64),
    value: &str,
    work: Duration,
) -> Option<bool> {
    // Whether it still leads when it is asked to resign, or loses its lock.
    let ended = async {
        loop {
            match stream.notice().await {
                Ok(Notice::Lost(lost, ..)) if lost.fencing_token == term => return false,
                Ok(Notice::YieldRequested(asked, _)) if asked.fencing_token == term => {
                    return true;
                }
                Ok(_) => {}
                Err(_ended) => return false,
            }
        }
    };
    let works = async {
        if let Some(past) = past {
            // A proclamation of an earlier term comes late. Its answer may take longer than the
            // lease, and the loss of the lock must be noticed meanwhile.
            proclaim(world, node, owner, past, &format!("{value}-late")).await;
        }
        for part in 0..3 {
            sleep(work / 3).await;
            let value = format!("{value}-{part}");
            proclaim(world, node, owner, term, &value).await;
        }
    };
    tokio::select! {
        biased;
        () = node.down.cancelled() => None,
        leads = ended => Some(leads),
        () = works => Some(true),
    }
}

/// Some candidates lose interest before they are elected.
async fn elected(
    world: &World,
    node: &Node,
    owner: &Owner,
    value: &str,
    dice: &mut Dice,
) -> Option<Grant> {
    let acquire = scenario::acquire(world, NAME, Mode::Fair, owner, None);
    let campaign = Operation::Campaign(Campaign {
        acquire: acquire.prefer(dice.random_ratio(1, 4)).unwrap(),
        wait: Some(millis(dice.random_range(0..8000))),
        value: ElectionValue::parse(value).unwrap(),
    });
    let interest = if dice.random_ratio(1, 5) {
        millis(dice.random_range(0..3000))
    } else {
        Duration::from_secs(3600)
    };
    match timeout(interest, scenario::ask(node, campaign))
        .await
        .ok()??
    {
        Answer::Elected(it) => it.delivery.take().ok(),
        _ => None,
    }
}

async fn proclaim(world: &World, node: &Node, owner: &Owner, term: u64, value: &str) {
    let operation = Operation::Proclaim(Proclaim {
        name: name(world),
        owner: owner.clone(),
        term,
        value: ElectionValue::parse(value).unwrap(),
    });
    scenario::ask(node, operation).await;
}

/// Transfers the leadership to one candidate after the other, here and there.
async fn transfer(world: World, over: CancellationToken, mut dice: Dice) {
    while !over.is_cancelled() {
        sleep(world.plan.pause.mul_f64(dice.random_range(0.5..4.0))).await;
        let Some(node) = world.node(&mut dice) else {
            continue;
        };
        let ask = RequestYield {
            name: name(&world),
            by: String::new(),
            reason: Reason::parse("another one is to lead").unwrap(),
            within: millis(dice.random_range(1..5000)),
            preempt: None,
            for_owner: None,
            account: Account::default(),
        };
        let to = dice.random_range(0..CANDIDATES).to_string();
        scenario::ask(&node, Operation::Transfer(Transfer { to, ask })).await;
    }
}

/// Observes, here and there, until it is over, and goes on after what it has seen.
async fn observe(world: World, over: CancellationToken, mut dice: Dice) -> Vec<Observed> {
    let (mut seen, mut after) = (Vec::new(), None);
    while !over.is_cancelled() {
        sleep(millis(dice.random_range(1..200))).await;
        let Some(node) = world.node(&mut dice) else {
            continue;
        };
        let observer = node
            .coordinator
            .observe(name(&world), after, &Account::default());
        let Ok(mut observer) = observer else { continue };
        let span = world.plan.pause * dice.random_range(1..100);
        let leaves = async {
            tokio::select! {
                () = sleep(span) => {}
                () = over.cancelled() => {}
            }
        };
        tokio::pin!(leaves);
        loop {
            let event = tokio::select! {
                biased;
                () = node.down.cancelled() => break,
                () = &mut leaves => break,
                event = observer.next() => event,
            };
            let Ok(event) = event else { break };
            if let Observed::Leader(leader) = &event {
                after = Some(leader.revision);
            }
            seen.push(event);
        }
    }
    seen
}

fn name(world: &World) -> LockName {
    LockName::parse(NAME, &world.limits).unwrap()
}
