//! A client with a session: holds, waits, breaks its stream, comes back here or elsewhere,
//! vanishes, or ends in good order.

mod acts;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use lockkeeper_access::Account;
use lockkeeper_coordinator::{
    Grant, Lease, LockName, Mode, Notice, OnDisconnect, Opened, Owner, Resumed, ResumedGrant,
    SessionId, Stream,
};
use rand::RngExt as _;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    ask::{Done, SELF_DEADLOCK, seen},
    pause,
};
use crate::{
    history::{Holder, Kind, Name, Op, SessionNo, Told, What},
    plan::{Dice, millis, pick},
    world::{Node, World},
};

/// Operations that a client has under way at once.
const OPS_MAX: usize = 4;

/// A lock, the owner within the session, and how it holds the lock.
type Key = (Name, u32, Mode);

/// An operation under way.
#[derive(Clone, Copy, Debug)]
struct Open {
    key: Key,
    kind: Kind,
}

/// What the client believes to hold.
#[derive(Clone, Copy, Debug)]
struct Held {
    token: u64,
    count: u32,
    watched: bool,
}

/// A client's session, through all its streams.
struct Life {
    world: World,
    dice: Dice,
    number: SessionNo,
    id: SessionId,
    resume_token: Vec<u8>,
    lease: Duration,
    keeps: bool,
    held: BTreeMap<Key, Held>,
    /// Owners that new grants go to are this and the next. A session that moves to another
    /// coordinator takes new ones: what its old owners had in doubt may still be carried out or
    /// undone by the coordinator it has left, which cannot know of grants made elsewhere.
    labels_from: u32,
    /// Operations without an answer at this coordinator.
    open: BTreeMap<Op, Open>,
    /// What they left in doubt.
    doubtful: BTreeSet<Key>,
    ops: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// How a stream ended.
enum End {
    /// Broken, or to be left for another coordinator.
    Broken,
    /// The session is over.
    Over,
}

/// Opens one session after the other until the healing begins.
pub(crate) async fn session_client(world: World, number: u64) {
    let mut dice = world.plan.dice(number);
    while !world.healed.is_cancelled() {
        let wait = pause(&world, &mut dice);
        sleep(wait).await;
        let Some(node) = world.node(&mut dice) else {
            continue;
        };
        let lease = pick(&mut dice, &world.plan.leases);
        let keeps = dice.random_bool(0.8);
        let on_disconnect = if keeps {
            OnDisconnect::Keep
        } else {
            OnDisconnect::Release
        };
        let asked = Lease::new(lease, &world.limits).unwrap();
        let opened = node.coordinator.open(
            Account::default(),
            Some(asked),
            format!("client-{number}"),
            on_disconnect,
        );
        let Ok(opened) = opened else { continue };
        let life = Life {
            number: world.history.next_session(),
            id: opened.stream.id().clone(),
            resume_token: opened.resume_token.clone(),
            lease,
            keeps,
            held: BTreeMap::new(),
            labels_from: 0,
            open: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            ops: FuturesUnordered::new(),
            world: world.clone(),
            dice: world
                .plan
                .dice(number << 32 | u64::from(dice.random::<u32>())),
        };
        life.run(node, opened).await;
    }
}

// === impl Life ===

impl Life {
    async fn run(mut self, node: Arc<Node>, opened: Opened) {
        self.introduce();
        let mut next = Some((node, opened));
        while let Some((node, opened)) = next.take() {
            let attached = What::Attached(self.number, node.number);
            self.world.history.record(attached);
            for grant in &opened.grants {
                let key = self.key_of(grant);
                let kept = What::Kept(self.holder(key), key.0, seen(grant, &self.world.history));
                self.world.history.record(kept);
                if let Some(held) = self.held.get_mut(&key) {
                    held.token = grant.fencing_token;
                    held.count = grant.hold_count;
                }
            }
            match self.attached(&node, &opened.stream).await {
                End::Over => return,
                End::Broken => {
                    let broken = What::Broken(self.number, self.keeps);
                    self.world.history.record(broken);
                    drop(opened);
                    if !self.keeps {
                        // It has ended with its stream.
                        return;
                    }
                    next = self.resume(node.number).await;
                }
            }
        }
    }

    /// Serves the stream until it ends.
    async fn attached(&mut self, node: &Arc<Node>, stream: &Stream) -> End {
        let mut next_action = Instant::now() + pause(&self.world, &mut self.dice);
        let healed = self.world.healed.clone();
        loop {
            if healed.is_cancelled() {
                next_action = next_action.min(Instant::now() + millis(10));
            }
            tokio::select! {
                biased;
                () = node.down.cancelled() => return End::Broken,
                () = stream.superseded().cancelled() => return End::Broken,
                notice = stream.notice() => {
                    // No operator ends sessions here.
                    if notice.is_err() || notice.is_ok_and(|it| self.on_notice(&it)) {
                        return End::Broken;
                    }
                }
                Some(done) = self.ops.next(), if !self.ops.is_empty() => self.on_done(&done),
                () = sleep_until(next_action) => {
                    let end = if healed.is_cancelled() {
                        self.finish(node, stream).await
                    } else {
                        self.act(node, stream).await
                    };
                    if let Some(end) = end {
                        return end;
                    }
                    next_action = Instant::now() + pause(&self.world, &mut self.dice);
                }
            }
        }
    }

    /// True if the client leaves this coordinator.
    fn on_notice(&mut self, notice: &Notice) -> bool {
        match notice {
            Notice::Lost(grant, _) => {
                let key = self.key_of(grant);
                let token = grant.fencing_token;
                let lost = What::Lost(self.holder(key), key.0, token);
                self.world.history.record(lost);
                if self.held.get(&key).is_some_and(|held| held.token == token) {
                    self.held.remove(&key);
                }
                false
            }
            // No caller asks here.
            Notice::AtRisk(_)
            | Notice::Recovered
            | Notice::PermitsLost(..)
            | Notice::YieldRequested(..) => false,
            // Some go at once, some when they have to.
            Notice::GoingAway => self.dice.random_bool(0.5),
        }
    }

    fn on_done(&mut self, (op, told): &Done) {
        let Some(Open { key, kind }) = self.open.remove(op) else {
            return;
        };
        match told {
            Some(Told::Granted(seen)) => {
                self.held.insert(
                    key,
                    Held {
                        token: seen.token,
                        count: seen.count,
                        watched: seen.watched,
                    },
                );
            }
            Some(Told::Released(0) | Told::NotOwner) => {
                self.held.remove(&key);
            }
            Some(Told::Released(left)) => {
                if let Some(held) = self.held.get_mut(&key) {
                    held.count = *left;
                }
            }
            Some(Told::Refused(SELF_DEADLOCK)) => {}
            // A hold that could not be told is being undone.
            None | Some(Told::Unknown | Told::Refused(_)) => {
                self.doubtful.insert(key);
                if kind == Kind::Release && !matches!(told, Some(Told::Refused(_))) {
                    self.given_back(key);
                }
            }
            _ => {}
        }
    }

    /// Stops listening to what is under way.
    fn leave_ops(&mut self) {
        self.ops.clear();
        for (_, open) in std::mem::take(&mut self.open) {
            self.doubtful.insert(open.key);
            if open.kind == Kind::Release {
                self.given_back(open.key);
            }
        }
    }

    /// A hold was to be given back, and whether that was done is now the coordinator's business.
    fn given_back(&mut self, key: Key) {
        if let Some(held) = self.held.get_mut(&key) {
            held.count = held.count.saturating_sub(1);
            if held.count == 0 {
                self.held.remove(&key);
            }
        }
    }

    /// Tells the history what the owners' fields are.
    fn introduce(&self) {
        for label in self.labels_from..self.labels_from + 2 {
            let owner = self.owner(label);
            let holder = Holder::in_session(self.number, label);
            self.world.history.is_field_of(owner.field(), holder);
        }
    }

    /// After a pause in which answers may still come, as they do to RPCs of their own. None if the
    /// session is given up.
    async fn resume(&mut self, left: usize) -> Option<(Arc<Node>, Opened)> {
        if self.dice.random_bool(0.5) {
            self.leave_ops();
        }
        let away = self
            .lease
            .mul_f64(pick(&mut self.dice, &[0.0, 0.1, 0.5, 1.5]));
        let back = Instant::now() + away;
        loop {
            tokio::select! {
                biased;
                () = sleep_until(back) => break,
                Some(done) = self.ops.next(), if !self.ops.is_empty() => self.on_done(&done),
            }
        }
        self.leave_ops();
        for _ in 0..20 {
            let Some(node) = self.world.node(&mut self.dice) else {
                sleep(millis(50)).await;
                continue;
            };
            if node.number != left {
                for key in &self.doubtful {
                    if self.held.remove(key).is_some() {
                        let forgot = What::Forgot(self.holder(*key), key.0);
                        self.world.history.record(forgot);
                    }
                }
            }
            let named = self
                .held
                .iter()
                .map(|((name, label, mode), held)| ResumedGrant {
                    mode: *mode,
                    name: self.lock(*name),
                    owner: self.owner(*label),
                    watched: held.watched,
                    fencing_token: held.token,
                    hold_count: held.count,
                    is_permitted: true,
                });
            let named = Resumed {
                locks: named.collect(),
                ..Resumed::default()
            };
            let resume =
                node.coordinator
                    .resume(Account::default(), &self.id, &self.resume_token, named);
            let resumed = tokio::select! {
                biased;
                () = node.down.cancelled() => continue,
                resumed = resume => resumed,
            };
            match resumed {
                Ok(opened) => {
                    if node.number != left {
                        self.doubtful.clear();
                        self.labels_from += 2;
                        self.introduce();
                    }
                    return Some((node, opened));
                }
                Err(_) => sleep(millis(50)).await,
            }
        }
        None
    }

    fn holder(&self, (_, label, mode): Key) -> Holder {
        Holder::in_session(self.number, label).with(mode)
    }

    fn owner(&self, label: u32) -> Owner {
        Owner::in_session(self.id.clone(), &label.to_string(), &self.world.limits).unwrap()
    }

    fn lock(&self, name: Name) -> LockName {
        LockName::parse(self.world.ledger.names()[name], &self.world.limits).unwrap()
    }

    fn key_of(&self, grant: &Grant) -> Key {
        let names = self.world.ledger.names();
        let name = names
            .iter()
            .position(|name| *name == grant.name.store_key());
        let label = grant.owner.label.parse().unwrap();
        (name.unwrap(), label, grant.mode)
    }
}
