//! What a client does while its session has a stream.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use lockkeeper_access::Account;
use lockkeeper_coordinator::{Acquire, Lease, Mode, Operation, Release, Renew, RequestId, Stream};
use rand::RngExt as _;

use super::{End, Key, Life, OPS_MAX, Open};
use crate::{
    clients::ask::{Patience, ask},
    history::{Kind, What},
    plan::{happens, millis, pick},
    world::Node,
};

impl Life {
    pub(super) async fn act(&mut self, node: &Arc<Node>, stream: &Stream) -> Option<End> {
        let manners = self.world.plan.manners.clone();
        let dice = &mut self.dice;
        if happens(dice, manners.breaks) {
            return Some(End::Broken);
        }
        if happens(dice, manners.crashes) {
            self.world
                .history
                .record(What::Broken(self.number, self.keeps));
            return Some(End::Over);
        }
        if happens(dice, manners.closes) {
            self.close(node, stream).await;
            return Some(End::Over);
        }
        if self.ops.len() >= OPS_MAX {
            return None;
        }
        let name = dice.random_range(0..self.world.ledger.names().len());
        let label = self.labels_from + dice.random_range(0..2);
        let mode = self.world.ledger.family(name).mode(dice, manners.reads);
        let key = (name, label, mode);
        if happens(dice, manners.stranger) {
            self.release(node, key);
        } else if !self.held.is_empty() && dice.random_bool(0.6) {
            let at = dice.random_range(0..self.held.len());
            let key = *self.held.keys().nth(at).unwrap();
            if happens(dice, manners.reenters) {
                self.acquire(node, key);
            } else if key.1 >= self.labels_from && happens(dice, manners.nests) {
                self.acquire(node, other_side(key));
            } else if happens(dice, 150) {
                self.renew(node, key);
            } else {
                self.release(node, key);
            }
        } else if manners.reenters > 0 || !self.held.contains_key(&key) {
            self.acquire(node, key);
        }
        None
    }

    /// Gives back what is held, lets what is under way come to its end, and closes.
    pub(super) async fn finish(&mut self, node: &Arc<Node>, stream: &Stream) -> Option<End> {
        if self.ops.is_empty() && self.held.is_empty() {
            self.close(node, stream).await;
            return Some(End::Over);
        }
        let releasing = |key: &Key| {
            let releases = self.open.values().filter(|open| open.kind == Kind::Release);
            releases.into_iter().any(|open| open.key == *key)
        };
        let held: Vec<_> = self.held.keys().filter(|key| !releasing(key)).collect();
        let held: Vec<_> = held.into_iter().copied().collect();
        for key in held {
            self.release(node, key);
        }
        None
    }

    async fn close(&mut self, node: &Arc<Node>, stream: &Stream) {
        self.world.history.record(What::Closing(self.number));
        let close = stream.close();
        tokio::pin!(close);
        loop {
            tokio::select! {
                biased;
                () = node.down.cancelled() => return,
                Some(_) = self.ops.next(), if !self.ops.is_empty() => {}
                () = &mut close => return,
            }
        }
    }

    fn acquire(&mut self, node: &Arc<Node>, key: Key) {
        let manners = self.world.plan.manners.clone();
        let lease = happens(&mut self.dice, manners.fixed)
            .then(|| pick(&mut self.dice, &self.world.plan.leases));
        let wait = match self.dice.random_range(0..10) {
            0..3 => None,
            3 => Some(Duration::ZERO),
            _ => Some(millis(self.dice.random_range(1..6000))),
        };
        let owner = self.owner(key.1);
        let request = Acquire {
            mode: key.2,
            name: self.lock(key.0),
            note: manners.note(&mut self.dice, &owner),
            owner,
            lease: lease.map(|lease| Lease::new(lease, &self.world.limits).unwrap()),
            wait,
            request_id: self.request_id(),
            min_replica_acks: 0,
            hold_at_least: None,
            lock_delay: None,
            end_on_deadlock: false,
            preferred: false,
            account: Account::default(),
        };
        let in_ms = wait.and_then(|wait| u64::try_from(wait.as_millis()).ok());
        let (kind, operation) = if self.dice.random_bool(0.25) {
            (Kind::Try, Operation::TryAcquire(request))
        } else {
            (Kind::Acquire(in_ms), Operation::Acquire(request))
        };
        let patience = self.patience();
        self.ask(node, (key, kind), operation, patience);
    }

    fn release(&mut self, node: &Arc<Node>, key: Key) {
        let operation = Operation::Release(Release {
            mode: key.2,
            name: self.lock(key.0),
            owner: self.owner(key.1),
            request_id: self.request_id(),
        });
        let what = (key, Kind::Release);
        self.ask(node, what, operation, Patience::ToTheEnd);
    }

    fn renew(&mut self, node: &Arc<Node>, key: Key) {
        let operation = Operation::Renew(Renew {
            mode: key.2,
            name: self.lock(key.0),
            owner: self.owner(key.1),
            lease: None,
        });
        let what = (key, Kind::Renew);
        self.ask(node, what, operation, Patience::ToTheEnd);
    }

    fn ask(
        &mut self,
        node: &Arc<Node>,
        (key, kind): (Key, Kind),
        operation: Operation,
        patience: Patience,
    ) {
        let what = (self.holder(key), key.0, kind);
        let asking = ask(&self.world, node, what, operation, None, patience);
        self.open.insert(asking.op, Open { key, kind });
        self.ops.push(asking.end);
    }

    fn patience(&mut self) -> Patience {
        let manners = &self.world.plan.manners;
        if !happens(&mut self.dice, manners.fickle) {
            return Patience::ToTheEnd;
        }
        let after = millis(self.dice.random_range(0..1500));
        match self.dice.random_range(0..3) {
            0 => Patience::LeaveAfter(after),
            1 => Patience::CancelAfter(after),
            _ => Patience::IgnoreAnswer(after / 4),
        }
    }

    fn request_id(&mut self) -> Option<RequestId> {
        if !happens(&mut self.dice, self.world.plan.manners.request_ids) {
            return None;
        }
        let id = format!("r-{}", self.world.history.next_label());
        RequestId::parse(&id, &self.world.limits).unwrap()
    }
}

/// A reader as a writer, and the other way round.
fn other_side((name, label, mode): Key) -> Key {
    let mode = match mode {
        Mode::Read => Mode::Write,
        Mode::Write => Mode::Read,
        sole => sole,
    };
    (name, label, mode)
}
