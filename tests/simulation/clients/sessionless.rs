//! A client without a session: an owner of its own making, a lease, and request ids to repeat what
//! got no answer. Without a request id it does as the documentation says and never uses an owner
//! again whose last operation is in doubt.

use std::{sync::Arc, time::Duration};

use lockkeeper_access::Account;
use lockkeeper_coordinator::{
    Acquire, Lease, LockName, Mode, Operation, Owner, Release, Renew, RequestId,
};
use rand::RngExt as _;
use tokio::time::sleep;

use super::{
    ask::{Patience, SELF_DEADLOCK, ask},
    pause,
};
use crate::{
    history::{Holder, Kind, Name, Op, Told},
    plan::{Dice, happens, millis, pick},
    world::{Node, World},
};

/// How often a request is repeated.
const REPEATS: usize = 3;

struct Sessionless {
    world: World,
    dice: Dice,
    holder: Holder,
    owner: Owner,
}

/// Takes locks and gives them back until the healing begins.
pub(crate) async fn sessionless_client(world: World, number: u64) {
    let dice = world.plan.dice(number);
    let (holder, owner) = new_owner(&world);
    let mut this = Sessionless {
        world,
        dice,
        holder,
        owner,
    };
    while !this.world.healed.is_cancelled() {
        let wait = pause(&this.world, &mut this.dice);
        sleep(wait).await;
        if !this.hold_once().await {
            (this.holder, this.owner) = new_owner(&this.world);
        }
    }
}

fn new_owner(world: &World) -> (Holder, Owner) {
    let label = world.history.next_label();
    let holder = Holder::sessionless(label);
    let owner = Owner::sessionless(&format!("owner-{label}"), &world.limits).unwrap();
    world.history.is_field_of(owner.field(), holder);
    (holder, owner)
}

// === impl Sessionless ===

impl Sessionless {
    /// False if the owner's state is in doubt afterwards.
    async fn hold_once(&mut self) -> bool {
        let manners = self.world.plan.manners.clone();
        let name = self.dice.random_range(0..self.world.ledger.names().len());
        let family = self.world.ledger.family(name);
        let mode = family.mode(&mut self.dice, manners.reads);
        let lease = pick(&mut self.dice, &self.world.plan.leases);
        match self.acquire(name, mode, lease).await {
            Some(Told::Granted(_)) => {}
            Some(Told::Busy | Told::TimedOut | Told::Refused("draining" | "unavailable")) => {
                return true;
            }
            _ => return false,
        }
        let mut holds = 1;
        if happens(&mut self.dice, manners.reenters) {
            match self.acquire(name, mode, lease).await {
                Some(Told::Granted(seen)) => holds = seen.count,
                _ => return false,
            }
        }
        let mut reads_too = false;
        if mode == Mode::Write && happens(&mut self.dice, manners.nests) {
            match self.acquire(name, Mode::Read, lease).await {
                Some(Told::Granted(_)) => reads_too = true,
                _ => return false,
            }
        } else if mode == Mode::Read && happens(&mut self.dice, manners.nests) {
            let told = self.acquire(name, Mode::Write, lease).await;
            if !matches!(told, Some(Told::Refused(SELF_DEADLOCK))) {
                return false;
            }
        }
        let held_for = lease.mul_f64(self.dice.random_range(0.0..0.6));
        sleep(held_for).await;
        if happens(&mut self.dice, 200) {
            self.renew(name, mode).await;
        }
        if happens(&mut self.dice, manners.crashes) {
            return false;
        }
        let mut releases = vec![mode; usize::try_from(holds).unwrap_or(0)];
        if reads_too {
            let at = self.dice.random_range(0..=releases.len());
            releases.insert(at, Mode::Read);
        }
        for mode in releases {
            match self.release(name, mode).await {
                Some(Told::Released(_)) => {}
                Some(Told::NotOwner) => return !reads_too,
                _ => return false,
            }
        }
        if happens(&mut self.dice, manners.stranger) {
            return matches!(self.release(name, mode).await, Some(Told::NotOwner));
        }
        true
    }

    async fn acquire(&mut self, name: Name, mode: Mode, lease: Duration) -> Option<Told> {
        let wait = self
            .dice
            .random_bool(0.6)
            .then(|| millis(self.dice.random_range(0..3000)));
        let kind = wait.map_or(Kind::Try, |wait| {
            Kind::Acquire(u64::try_from(wait.as_millis()).ok())
        });
        let manners = &self.world.plan.manners;
        let note = manners.note(&mut self.dice, &self.owner);
        let request = Acquire {
            mode,
            name: self.lock(name),
            owner: self.owner.clone(),
            note,
            lease: Some(Lease::new(lease, &self.world.limits).unwrap()),
            wait,
            request_id: self.request_id(),
            min_replica_acks: 0,
            hold_at_least: None,
            lock_delay: None,
            end_on_deadlock: false,
            preferred: false,
            account: Account::default(),
        };
        let id = request.request_id.clone();
        let operation = match kind {
            Kind::Try => Operation::TryAcquire(request),
            _ => Operation::Acquire(request),
        };
        self.ask_again_and_again((name, mode), kind, operation, id.is_some())
            .await
    }

    async fn release(&mut self, name: Name, mode: Mode) -> Option<Told> {
        let request_id = self.request_id();
        let repeatable = request_id.is_some();
        let operation = Operation::Release(Release {
            mode,
            name: self.lock(name),
            owner: self.owner.clone(),
            request_id,
        });
        self.ask_again_and_again((name, mode), Kind::Release, operation, repeatable)
            .await
    }

    async fn renew(&mut self, name: Name, mode: Mode) {
        let lease = pick(&mut self.dice, &self.world.plan.leases);
        let operation = Operation::Renew(Renew {
            mode,
            name: self.lock(name),
            owner: self.owner.clone(),
            lease: Some(Lease::new(lease, &self.world.limits).unwrap()),
        });
        self.ask_again_and_again((name, mode), Kind::Renew, operation, false)
            .await;
    }

    /// Asks some coordinator, and any other if there is no answer and the request can be repeated;
    /// sometimes also if there is one.
    async fn ask_again_and_again(
        &mut self,
        (name, mode): (Name, Mode),
        kind: Kind,
        operation: Operation,
        repeatable: bool,
    ) -> Option<Told> {
        let mut first: Option<Op> = None;
        let mut told = None;
        let mut was_in_doubt = false;
        for _ in 0..REPEATS {
            let node = self.node().await?;
            let patience = if repeatable && happens(&mut self.dice, self.world.plan.manners.fickle)
            {
                Patience::LeaveAfter(millis(self.dice.random_range(0..500)))
            } else {
                Patience::ToTheEnd
            };
            let asking = ask(
                &self.world,
                &node,
                (self.holder.with(mode), name, kind),
                operation.clone(),
                first,
                patience,
            );
            let (op, answer) = asking.end.await;
            first.get_or_insert(op);
            told = answer;
            let in_doubt = matches!(told, None | Some(Told::Unknown));
            was_in_doubt |= in_doubt;
            let curious = happens(&mut self.dice, 100)
                && matches!(told, Some(Told::Granted(_) | Told::Released(_)));
            if !repeatable || !(in_doubt || curious) {
                break;
            }
            let wait = pause(&self.world, &mut self.dice);
            sleep(wait).await;
        }
        match told {
            Some(Told::Granted(_) | Told::Released(_)) => told,
            // The first request may still be carried out, whatever the repeat was told.
            _ if was_in_doubt => None,
            told => told,
        }
    }

    async fn node(&mut self) -> Option<Arc<Node>> {
        for _ in 0..100 {
            if let Some(node) = self.world.node(&mut self.dice) {
                return Some(node);
            }
            sleep(millis(50)).await;
        }
        None
    }

    fn lock(&self, name: Name) -> LockName {
        LockName::parse(self.world.ledger.names()[name], &self.world.limits).unwrap()
    }

    fn request_id(&mut self) -> Option<RequestId> {
        if !happens(&mut self.dice, self.world.plan.manners.request_ids) {
            return None;
        }
        let id = format!("r-{}", self.world.history.next_label());
        RequestId::parse(&id, &self.world.limits).unwrap()
    }
}
