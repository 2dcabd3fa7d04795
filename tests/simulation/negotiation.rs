//! A lock with delays, with times that it is held at least, and with hand-overs by ticket, among
//! the same incidents: never two holders, a delay after every crash and none after a release, and
//! every ticket claimed at most once.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{
    Answer, Claim, Grant, Lease, Mode, Notice, Offer, OnDisconnect, Operation, Owner, Stream,
};
use lockkeeper_store::host::Value;
use parking_lot::Mutex;
use rand::RngExt as _;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::{
    mutants::{Mutant, Story},
    plan::{Dice, Plan, millis},
    run::paused,
    scenario::{self, Outcome, expect_all, expect_noticed, plan_without_operators},
    world::{Node, World},
};

const MUTANT_SEEDS: u64 = 400;
const NAME: &str = "negotiated";
const CLIENTS: u64 = 4;

/// What all clients share.
#[derive(Debug)]
struct Shared {
    reigns: Mutex<Vec<Reign>>,
    /// What a client found broken.
    broken: Mutex<Vec<String>>,
    /// The newest ticket, and the token of its grant.
    tickets: watch::Sender<Option<(String, u64)>>,
}

/// What a client believed of a grant.
#[derive(Clone, Debug)]
struct Reign {
    token: u64,
    asked: Instant,
    from: Instant,
    until: Instant,
    least: Duration,
    delay: Duration,
    /// It ended without a release, and was valid up to then.
    crashed: bool,
    /// The token of the grant that it was taken over from.
    claimed: Option<u64>,
}

/// One client in one of its sessions.
struct Life<'a> {
    world: &'a World,
    shared: &'a Shared,
    node: Arc<Node>,
    stream: Stream,
}

#[test]
fn no_seed_ends_a_delay_early_or_has_two_holders() {
    let seen = expect_all(run);
    let sum = |of: fn(&[usize; 3]) -> usize| seen.iter().map(of).sum::<usize>();
    let counts = [sum(|it| it[0]), sum(|it| it[1]), sum(|it| it[2])];
    assert!(counts.iter().all(|it| *it > 0), "not seen: {counts:?}");
}

#[test]
fn a_negotiation_that_is_broken_on_purpose_is_noticed() {
    expect_noticed(Story::Negotiations.mutants(), MUTANT_SEEDS, run);
}

/// Returns how many grants were claimed, held at least, and delayed.
fn run(seed: u64, mutant: Mutant) -> Outcome<[usize; 3]> {
    paused(live(plan_without_operators(seed), mutant))
}

async fn live(plan: Plan, mutant: Mutant) -> Outcome<[usize; 3]> {
    let world = World::new(plan, mutant);
    let shared = Arc::new(Shared {
        reigns: Mutex::default(),
        broken: Mutex::default(),
        tickets: watch::Sender::new(None),
    });
    let clients = (0..CLIENTS).map(|number| {
        let (world, shared) = (world.clone(), Arc::clone(&shared));
        let dice = world.plan.dice(6000 + number);
        spawn_detached("negotiator", live_again(world, shared, number, dice))
    });
    let clients: Vec<_> = clients.collect();
    scenario::until_ended(&world, clients, 8).await?;
    if let Some(broken) = shared.broken.lock().first() {
        return Err(broken.clone());
    }
    let mut reigns = std::mem::take(&mut *shared.reigns.lock());
    reigns.sort_by_key(|reign| reign.token);
    in_turn(&reigns)?;
    let count = |of: fn(&Reign) -> bool| reigns.iter().filter(|it| of(it)).count();
    Ok([
        count(|it| it.claimed.is_some()),
        count(|it| !it.least.is_zero()),
        count(|it| it.crashed && !it.delay.is_zero()),
    ])
}

fn in_turn(reigns: &[Reign]) -> Outcome<()> {
    let mut claimed = BTreeMap::new();
    for reign in reigns {
        if let Some(from) = reign.claimed
            && let Some(first) = claimed.insert(from, reign.token)
        {
            return Err(format!("{from} was claimed by {first} and {}", reign.token));
        }
    }
    for pair in reigns.windows(2) {
        let [before, next] = pair else { continue };
        let tokens = (before.token, next.token);
        if before.token == next.token || next.from < before.until {
            return Err(format!("two holders at once: {tokens:?}"));
        }
        if next.from < before.asked + before.least {
            return Err(format!("not held for {:?}: {tokens:?}", before.least));
        }
        if before.crashed && next.from < before.until + before.delay {
            return Err(format!("no delay of {:?}: {tokens:?}", before.delay));
        }
    }
    Ok(())
}

/// Opens one session after the other, and holds the lock in each a few times.
async fn live_again(world: World, shared: Arc<Shared>, number: u64, mut dice: Dice) {
    let mut round = 0;
    while !world.healed.is_cancelled() {
        let session = scenario::session(&world, OnDisconnect::Keep, &mut dice).await;
        let Some((node, stream)) = session else {
            continue;
        };
        let life = Life {
            world: &world,
            shared: &shared,
            node,
            stream,
        };
        for _ in 0..dice.random_range(1..5) {
            round += 1;
            let label = format!("{number}-{round}");
            let owner = Owner::in_session(life.stream.id().clone(), &label, &world.limits).unwrap();
            let Some((mut reign, grant)) = life.begin(&owner, &mut dice).await else {
                continue;
            };
            let goes_on = life.reign(&mut reign, &grant, &mut dice).await;
            shared.reigns.lock().push(reign);
            if !goes_on {
                break;
            }
        }
    }
}

// === impl Life ===

impl Life<'_> {
    /// Acquires the lock, or claims it as soon as it is offered.
    async fn begin(&self, owner: &Owner, dice: &mut Dice) -> Option<(Reign, Grant)> {
        let period = |dice: &mut Dice, max| match dice.random_range(0..3) {
            0 => Some(Lease::new(millis(dice.random_range(100..max)), &self.world.limits).unwrap()),
            _ => None,
        };
        let wait = Some(millis(dice.random_range(0..4000)));
        let mut acquire = scenario::acquire(self.world, NAME, Mode::Exclusive, owner, wait);
        let mut asked = Instant::now();
        let (answer, claimed) = if dice.random() {
            let mut tickets = self.shared.tickets.subscribe();
            let patience = millis(dice.random_range(0..3000));
            timeout(patience, tickets.changed()).await.ok()?.ok()?;
            let (ticket, token) = tickets.borrow().clone()?;
            asked = Instant::now();
            let claim = Operation::Claim(Claim { acquire, ticket });
            (scenario::ask(&self.node, claim).await, Some(token))
        } else {
            acquire.hold_at_least = period(dice, 3000).map(Box::new);
            acquire.lock_delay = period(dice, 3000).map(Box::new);
            let given = |it: &Option<Box<Lease>>| it.as_ref().map_or(Duration::ZERO, |it| it.get());
            let periods = (given(&acquire.hold_at_least), given(&acquire.lock_delay));
            let answer = scenario::ask(&self.node, Operation::Acquire(acquire)).await;
            return Self::granted(answer, asked, periods, None);
        };
        let begun = Self::granted(answer, asked, (Duration::ZERO, Duration::ZERO), claimed)?;
        let fields = self.fields();
        if fields.iter().any(|it| of(it, owner)) && fields.len() > 1 {
            self.broke(format!("a claim left others in the lock: {fields:?}"));
        }
        Some(begun)
    }

    fn granted(
        answer: Option<Answer>,
        asked: Instant,
        (least, delay): (Duration, Duration),
        claimed: Option<u64>,
    ) -> Option<(Reign, Grant)> {
        let grant = match answer? {
            Answer::Granted(delivery) | Answer::Claimed(delivery) => delivery.take().ok()?,
            _ => return None,
        };
        let from = Instant::now();
        let reign = Reign {
            token: grant.fencing_token,
            asked,
            from,
            until: from,
            least,
            delay,
            crashed: false,
            claimed,
        };
        Some((reign, grant))
    }

    /// Holds the lock for a time, and ends that in some way. False if the session is over.
    async fn reign(&self, reign: &mut Reign, grant: &Grant, dice: &mut Dice) -> bool {
        let work = grant.lease.mul_f64(dice.random_range(0.0..2.0));
        let ended = self.until_lost(grant, work).await;
        reign.until = Instant::now();
        if let Some(is_down) = ended {
            reign.crashed = is_down;
            return !is_down;
        }
        match dice.random_range(0..4) {
            0 => {
                reign.crashed = true;
                false
            }
            1 => {
                let within = millis(dice.random_range(200..3000));
                self.offer(grant, within).await;
                if self.until_lost(grant, within * 2).await.is_none() {
                    self.release(grant).await;
                }
                !self.node.down.is_cancelled()
            }
            2 => {
                let _ = timeout(self.world.plan.lease_max(), self.stream.close()).await;
                false
            }
            _ => {
                self.release(grant).await;
                !self.node.down.is_cancelled()
            }
        }
    }

    /// Waits until the grant is lost (false) or the coordinator is gone (true); none if neither
    /// happens in this time.
    async fn until_lost(&self, grant: &Grant, span: Duration) -> Option<bool> {
        let lost = async {
            loop {
                match self.stream.notice().await {
                    Ok(Notice::Lost(lost, _)) if lost.fencing_token == grant.fencing_token => {
                        return;
                    }
                    Ok(_) => {}
                    Err(_ended) => return,
                }
            }
        };
        tokio::select! {
            biased;
            () = self.node.down.cancelled() => Some(true),
            () = lost => Some(false),
            () = sleep(span) => None,
        }
    }

    async fn offer(&self, grant: &Grant, within: Duration) {
        let offer = Operation::Offer(Offer {
            name: grant.name.clone(),
            owner: grant.owner.clone(),
            within,
        });
        if let Some(Answer::Offered(offered)) = scenario::ask(&self.node, offer).await {
            let ticket = Some((offered.ticket, grant.fencing_token));
            self.shared.tickets.send_replace(ticket);
        }
    }

    async fn release(&self, grant: &Grant) {
        let release = scenario::release(self.world, NAME, Mode::Exclusive, &grant.owner);
        let answer = scenario::ask(&self.node, Operation::Release(release)).await;
        if matches!(answer, Some(Answer::Released(0))) {
            let mut left = self.fields();
            left.retain(|it| of(it, &grant.owner) && !it.starts_with("lockkeeper_least:"));
            if !left.is_empty() {
                self.broke(format!("a release left {left:?}"));
            }
        }
    }

    /// The fields of the lock in the store.
    fn fields(&self) -> Vec<String> {
        let Value::Array(fields) = self.world.ledger.command(&["HGETALL", NAME]) else {
            return Vec::new();
        };
        let fields = fields.iter().step_by(2).filter_map(|field| match field {
            Value::Bytes(field) => Some(String::from_utf8_lossy(field).into_owned()),
            _ => None,
        });
        fields.collect()
    }

    fn broke(&self, rule: String) {
        self.shared.broken.lock().push(rule);
    }
}

fn of(field: &str, owner: &Owner) -> bool {
    Owner::from_field(field).field() == owner.field()
}
