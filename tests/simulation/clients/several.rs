//! A client that acquires several locks at once, each time as a new owner, with or without a
//! session. Its grants have leases of their own, so they are not watched.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Account;
use lockkeeper_coordinator::{
    AcquireAll, Answer, Error, Grant, Lease, LockName, Locks, Mode, OnDisconnect, Operation, Owner,
    ReleaseAll, RequestId, Stream, TriedAll,
};
use rand::RngExt as _;
use tokio::time::{sleep, timeout};

use super::{
    ask::{failed, seen},
    pause,
};
use crate::{
    history::{Holder, Kind, Name, Op, Told, What},
    plan::{Dice, happens, millis, pick},
    scenario::ask,
    world::{Node, World},
};

struct Several {
    world: World,
    dice: Dice,
    holder: Holder,
    owner: Owner,
    /// Where its session is.
    session: Option<(Arc<Node>, Stream)>,
    wanted: Vec<(Name, Mode)>,
}

/// An answer, or none if the client left or the coordinator is gone.
type Answered = Option<Option<Answer>>;

/// Takes locks and gives them back until the healing begins.
pub(crate) async fn several_client(world: World, number: u64) {
    let mut dice = world.plan.dice(number);
    while !world.healed.is_cancelled() {
        let wait = pause(&world, &mut dice) * 2;
        sleep(wait).await;
        let Some(node) = world.node(&mut dice) else {
            continue;
        };
        let label = world.history.next_label();
        let (owner, session) = some_owner(&world, &node, label, &mut dice);
        let holder = Holder::sessionless(label);
        world.history.is_field_of(owner.field(), holder);
        let mut this = Several {
            wanted: some_locks(&world, &mut dice),
            dice: world
                .plan
                .dice(number << 32 | u64::from(dice.random::<u32>())),
            world: world.clone(),
            holder,
            owner,
            session: session.map(|stream| (Arc::clone(&node), stream)),
        };
        this.hold_once(&node).await;
    }
}

/// An owner that the client names, that the coordinator makes and so knows to be new, or of a
/// session, whose grants it knows.
fn some_owner(world: &World, node: &Node, label: u32, dice: &mut Dice) -> (Owner, Option<Stream>) {
    let kind = dice.random_range(0..3);
    if kind == 0 {
        let name = LockName::parse(world.ledger.names()[0], &world.limits).unwrap();
        let id = RequestId::parse(&label.to_string(), &world.limits).unwrap();
        return (Owner::made(&name, id.as_ref()), None);
    }
    let lease = Lease::new(world.plan.lease_max(), &world.limits).unwrap();
    let open = || {
        let (account, client) = (Account::default(), "several".to_owned());
        node.coordinator
            .open(account, Some(lease), client, OnDisconnect::Keep)
    };
    if kind == 1
        && let Ok(opened) = open()
    {
        let session = opened.stream.id().clone();
        let owner = Owner::in_session(session, "", &world.limits).unwrap();
        return (owner, Some(opened.stream));
    }
    let owner = Owner::sessionless(&format!("owner-{label}"), &world.limits);
    (owner.unwrap(), None)
}

fn some_locks(world: &World, dice: &mut Dice) -> Vec<(Name, Mode)> {
    let names = world.ledger.names().len();
    let left_out = dice.random_range(0..=names);
    let names = (0..names).filter(|name| names < 3 || *name != left_out);
    let reads = world.plan.manners.reads;
    names
        .map(|name| (name, world.ledger.family(name).mode(dice, reads)))
        .collect()
}

// === impl Several ===

impl Several {
    async fn hold_once(&mut self, node: &Arc<Node>) {
        let lease = pick(&mut self.dice, &self.world.plan.leases);
        if !self.acquire(node, lease).await {
            return;
        }
        let held_for = lease.mul_f64(self.dice.random_range(0.0..1.2));
        sleep(held_for).await;
        if happens(&mut self.dice, self.world.plan.manners.crashes) {
            return;
        }
        match self.session.take() {
            Some((node, stream)) => {
                self.release(&node).await;
                let _ = timeout(self.world.plan.lease_max(), stream.close()).await;
            }
            None => {
                if let Some(node) = self.world.node(&mut self.dice) {
                    self.release(&node).await;
                }
            }
        }
    }

    /// True if all are held.
    async fn acquire(&mut self, node: &Arc<Node>, lease: Duration) -> bool {
        let wait = self
            .dice
            .random_bool(0.7)
            .then(|| millis(self.dice.random_range(0..3000)));
        let kind = wait.map_or(Kind::TryAll, |wait| {
            Kind::AcquireAll(u64::try_from(wait.as_millis()).unwrap_or(0))
        });
        let manners = &self.world.plan.manners;
        let says = manners.note(&mut self.dice, &self.owner);
        let request = AcquireAll {
            locks: self.locks(),
            owner: self.owner.clone(),
            note: says,
            lease: Some(Lease::new(lease, &self.world.limits).unwrap()),
            wait,
            request_id: None,
            min_replica_acks: 0,
            end_on_deadlock: false,
            account: Account::default(),
        };
        let operation = match kind {
            Kind::TryAll => Operation::TryAcquireAll(request),
            _ => Operation::AcquireAll(request),
        };
        let fickle = happens(&mut self.dice, self.world.plan.manners.fickle);
        let patience = fickle.then(|| millis(self.dice.random_range(0..1500)));
        let ops = self.invoke(node, kind);
        let Some(answer) = self.ask(node, operation, patience).await else {
            self.dropped(&ops);
            return false;
        };
        let told = match answer {
            Some(Answer::GrantedAll(delivery) | Answer::TriedAll(TriedAll::Acquired(delivery))) => {
                match delivery.take() {
                    Ok(grants) => return self.granted(&ops, &grants),
                    Err(_) => Told::NotOwner,
                }
            }
            Some(Answer::TriedAll(TriedAll::Busy { .. })) => Told::Busy,
            Some(Answer::NotGranted(_)) => Told::TimedOut,
            Some(Answer::Failed(error)) => failed(&error, kind, &self.world.history),
            _ => Told::Nothing,
        };
        self.tell(&ops, |_| told.clone());
        false
    }

    /// All or none: each of the locks that were asked for has its grant.
    fn granted(&self, ops: &[Op], grants: &[Grant]) -> bool {
        let history = &self.world.history;
        let names = self.world.ledger.names();
        let granted = grants
            .iter()
            .map(|grant| (grant.name.store_key(), grant.mode))
            .collect::<Vec<_>>();
        let asked = self.wanted.iter().map(|(name, mode)| (names[*name], *mode));
        if granted != asked.collect::<Vec<_>>() {
            let rule = format!("several: {:?} were granted as {granted:?}", self.wanted);
            history.record(What::Broke(rule));
            return false;
        }
        self.tell(ops, |which| Told::Granted(seen(&grants[which], history)));
        true
    }

    async fn release(&mut self, node: &Arc<Node>) {
        // A sessionless client sends the owner, also one that the coordinator made.
        let owner = match &self.owner.session {
            Some(_) => self.owner.clone(),
            None => Owner::sessionless(&self.owner.label, &self.world.limits).unwrap(),
        };
        let operation = Operation::ReleaseAll(ReleaseAll {
            locks: self.locks(),
            owner,
            request_id: None,
        });
        let ops = self.invoke(node, Kind::Release);
        match self.ask(node, operation, None).await {
            None => self.dropped(&ops),
            Some(Some(Answer::ReleasedAll(released))) => self.tell(&ops, |which| {
                released[which].left.map_or(Told::NotOwner, Told::Released)
            }),
            Some(Some(Answer::Failed(Error::NotOwner(_)))) => self.tell(&ops, |_| Told::NotOwner),
            Some(Some(Answer::Failed(error))) => {
                let told = failed(&error, Kind::Release, &self.world.history);
                self.tell(&ops, |_| told.clone());
            }
            Some(_) => self.tell(&ops, |_| Told::Nothing),
        }
    }

    async fn ask(
        &self,
        node: &Arc<Node>,
        operation: Operation,
        patience: Option<Duration>,
    ) -> Answered {
        let answered = match patience {
            Some(patience) => timeout(patience, ask(node, operation)).await.ok(),
            None => Some(ask(node, operation).await),
        };
        answered.filter(|answer| answer.is_some() || !node.down.is_cancelled())
    }

    /// One operation in the history for each lock.
    fn invoke(&self, node: &Arc<Node>, kind: Kind) -> Vec<Op> {
        let history = &self.world.history;
        let ops = self.wanted.iter().map(|(name, mode)| {
            let op = history.next_op();
            history.record(What::Invoked {
                op,
                holder: self.holder.with(*mode),
                name: *name,
                node: node.number,
                kind,
                repeats: None,
            });
            op
        });
        ops.collect()
    }

    fn tell(&self, ops: &[Op], told: impl Fn(usize) -> Told) {
        for (which, op) in ops.iter().enumerate() {
            self.world.history.record(What::Told(*op, told(which)));
        }
    }

    fn dropped(&self, ops: &[Op]) {
        for op in ops {
            self.world.history.record(What::Dropped(*op));
        }
    }

    fn locks(&self) -> Locks {
        let limits = &self.world.limits;
        let named = self.wanted.iter().map(|(name, mode)| {
            let name = LockName::parse(self.world.ledger.names()[*name], limits)?;
            Ok((name, *mode))
        });
        Locks::new(named, limits).unwrap()
    }
}
