//! One run: a store, coordinators that come and go, the incidents of the plan, and at the end the
//! look at what is left.

mod leftovers;

use std::{cell::RefCell, sync::Arc, time::Duration};

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{Config, Coordinator, Limits, SessionId, SessionSecrets};
use lockkeeper_store::{
    host::embedded::{Clock, EmbeddedStore},
    script,
};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng as _};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Builder;

use super::{
    history::{History, Reach, What},
    ledger::Ledger,
    link::Link,
    mutants::Mutant,
    plan::{Dice, Incident, Plan, millis},
};

/// Everything clients meet. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct World(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Arc<Plan>,
    pub(crate) history: History,
    pub(crate) ledger: Ledger,
    pub(crate) limits: Limits,
    mutant: Mutant,
    /// Every coordinator there has ever been, by its number; the first ones are those of the plan,
    /// and each that goes down is replaced.
    nodes: Mutex<Vec<Arc<Node>>>,
    /// The store itself answers nobody until then.
    frozen_until: Mutex<Instant>,
    /// Cancelled when the time of healing begins.
    pub(crate) healed: CancellationToken,
}

/// One coordinator.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) coordinator: Coordinator,
    link: Link,
    /// Its clients' streams break.
    pub(crate) down: CancellationToken,
    rough_until: Mutex<Instant>,
    accepts: Mutex<bool>,
}

thread_local! {
    /// A run has its thread to itself. Waiters are woken in the order of their channels, which have
    /// session ids in their names, so the ids are drawn from the seed as everything else is.
    static SESSION_IDS: RefCell<Dice> = RefCell::new(Dice::seed_from_u64(0));
}

/// How long a request id is remembered.
const REQUEST_RETENTION: Duration = Duration::from_secs(60);

/// Between the signal to stop and the end of the streams.
const DRAIN_GRACE: Duration = Duration::from_secs(2);

/// A coordinator that went down is replaced after this.
const RESTART: Duration = millis(300);

// === impl World ===

impl std::ops::Deref for World {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl World {
    pub(crate) fn new(plan: Plan, mutant: Mutant) -> Self {
        SESSION_IDS.set(Dice::seed_from_u64(plan.seed));
        let history = History::new();
        let store = EmbeddedStore::new(Clock::starting_at(1_700_000_000_000_000));
        let ledger = Ledger::new(store, history.clone(), &plan);
        let world = Self(Arc::new(Shared {
            plan: Arc::new(plan),
            history,
            ledger,
            limits: limits(),
            mutant,
            nodes: Mutex::default(),
            frozen_until: Mutex::new(Instant::now()),
            healed: CancellationToken::new(),
        }));
        for _ in 0..world.plan.nodes {
            world.start_node();
        }
        world
    }

    /// A coordinator that takes new work, if there is one.
    pub(crate) fn node(&self, dice: &mut Dice) -> Option<Arc<Node>> {
        let nodes = self.nodes.lock();
        let open: Vec<_> = nodes.iter().filter(|node| *node.accepts.lock()).collect();
        if open.is_empty() {
            return None;
        }
        Some(Arc::clone(open[dice.random_range(0..open.len())]))
    }

    fn start_node(&self) {
        let plan = &self.plan;
        let mut nodes = self.nodes.lock();
        let number = nodes.len();
        let (link, connected) = Link::new(number, plan, self.mutant, &self.ledger);
        let config = Config {
            limits: self.limits.clone(),
            lease: plan.lease_max(),
            poll_interval: plan.poll_interval,
            poll_jitter: 0.0,
            call_timeout: plan.call_timeout,
            replica_acks: plan.replica_acks(),
            metric_prefixes: Vec::new(),
            scripts: script::Config {
                idle_token_retention: Duration::from_secs(7 * 24 * 3600),
                request_retention: REQUEST_RETENTION,
                fair_waiter_timeout: plan.patience,
                writer_hold_back: plan.hold_back,
                holders_per_lock_max: 10_000,
                permits_per_name_max: 10_000,
                adopts_counters: true,
                native_commands: plan.is_native(number),
            },
            resume_max: Duration::from_secs(3600),
            session_secrets: SessionSecrets::new(vec![
                b"a secret of all the coordinators here".to_vec(),
            ]),
            unix_seconds: || 1_800_000_000,
            session_id: next_session_id,
        };
        if self.healed.is_cancelled() {
            link.heal();
        }
        let frozen = self
            .frozen_until
            .lock()
            .saturating_duration_since(Instant::now());
        link.freeze(frozen);
        nodes.push(Arc::new(Node {
            number,
            coordinator: Coordinator::start(config, connected),
            link,
            down: CancellationToken::new(),
            rough_until: Mutex::new(Instant::now()),
            accepts: Mutex::new(true),
        }));
        let node = Arc::clone(&nodes[number]);
        drop(nodes);
        self.history.record(What::Reach(number, self.usual_reach()));
        if !frozen.is_zero() {
            self.rough(&node, frozen);
        }
    }

    fn usual_reach(&self) -> Reach {
        if self.healed.is_cancelled() {
            Reach::Calm
        } else if !self.plan.calls.are_reliable() {
            Reach::Rough
        } else if !self.plan.messages.are_reliable() {
            Reach::Deaf
        } else {
            Reach::Calm
        }
    }

    /// Lets the incidents of the plan happen, then heals everything.
    pub(crate) async fn run_incidents(&self) {
        let start = Instant::now();
        let end = start + self.plan.chaos;
        for (at, incident) in &self.plan.incidents {
            sleep_until(start + *at).await;
            self.history.note(format!("{incident:?}"));
            self.happen(incident, end);
        }
        sleep_until(end).await;
        self.healed.cancel();
        self.history.record(What::Healed);
        for node in self.live_nodes() {
            node.link.heal();
            self.history
                .record(What::Reach(node.number, self.usual_reach()));
        }
    }

    fn happen(&self, incident: &Incident, end: Instant) {
        let left = end.saturating_duration_since(Instant::now());
        let live = self.live_nodes();
        // The n-th of those that live now, so that an incident finds a victim.
        let victim = |node: usize| live.get(node % live.len().max(1));
        match *incident {
            Incident::Frozen(span) => {
                *self.frozen_until.lock() = Instant::now() + span.min(left);
                for node in &live {
                    node.link.freeze(span.min(left));
                    self.rough(node, span.min(left));
                }
            }
            Incident::Stalled(node, span) => {
                if let Some(node) = victim(node) {
                    node.link.freeze(span.min(left));
                    self.rough(node, span.min(left));
                }
            }
            Incident::Unavailable(node, span) => {
                if let Some(node) = victim(node) {
                    node.link.fail(span.min(left));
                    self.rough(node, span.min(left));
                }
            }
            Incident::Slow(node, span, by) => {
                if let Some(node) = victim(node) {
                    node.link.slow_down(span.min(left), by);
                    self.rough(node, span.min(left) + by * 2);
                }
            }
            Incident::Gap(node) => {
                if let Some(node) = victim(node) {
                    node.link.gap();
                }
            }
            Incident::Crash(node) => {
                if let Some(node) = victim(node) {
                    self.crash(node);
                }
            }
            Incident::Drain(node) => {
                if let Some(node) = victim(node) {
                    let (world, node) = (self.clone(), Arc::clone(node));
                    spawn_detached("drain", async move { world.drain(&node).await });
                }
            }
            Incident::Delete(name) => {
                self.history.record(What::Forced(name));
                self.ledger.command(&["DEL", self.ledger.names()[name]]);
                self.ledger.look_at(name, "by hand");
            }
            Incident::Flush => {
                for name in 0..self.ledger.names().len() {
                    self.history.record(What::Forced(name));
                }
                self.ledger.store().flush_all();
                for name in 0..self.ledger.names().len() {
                    self.ledger.look_at(name, "by hand");
                }
            }
        }
    }

    fn rough(&self, node: &Arc<Node>, span: Duration) {
        let until = Instant::now() + span;
        {
            let mut rough_until = node.rough_until.lock();
            *rough_until = until.max(*rough_until);
        }
        self.history.record(What::Reach(node.number, Reach::Rough));
        let (world, node) = (self.clone(), Arc::clone(node));
        spawn_detached("calm", async move {
            sleep_until(until).await;
            let over = *node.rough_until.lock() <= Instant::now();
            if over && *node.accepts.lock() {
                let reach = world.usual_reach();
                world.history.record(What::Reach(node.number, reach));
            }
        });
    }

    /// Ends a coordinator at once. Another one takes its place.
    pub(crate) fn crash(&self, node: &Arc<Node>) {
        *node.accepts.lock() = false;
        self.history.record(What::Reach(node.number, Reach::Down));
        node.link.cut();
        node.down.cancel();
        let (world, node) = (self.clone(), Arc::clone(node));
        spawn_detached("restart", async move {
            // Nothing that it does can be seen any more; it need not go on doing it.
            node.coordinator.stop(Duration::ZERO).await;
            sleep(RESTART).await;
            world.start_node();
        });
    }

    async fn drain(&self, node: &Arc<Node>) {
        *node.accepts.lock() = false;
        self.history.record(What::Reach(node.number, Reach::Down));
        node.coordinator.drain(DRAIN_GRACE / 2).await;
        sleep(DRAIN_GRACE / 2).await;
        node.down.cancel();
        sleep(millis(1)).await;
        self.start_node();
        // Releases and undos that were under way may still be tried for as long as a lease.
        node.coordinator.stop(DRAIN_GRACE).await;
        node.link.cut();
    }

    fn live_nodes(&self) -> Vec<Arc<Node>> {
        let nodes = self.nodes.lock();
        let live = nodes.iter().filter(|node| *node.accepts.lock());
        live.cloned().collect()
    }
}

fn limits() -> Limits {
    Limits {
        key_prefix: "".into(),
        name_bytes_max: 64,
        owner_bytes_max: 64,
        request_id_bytes_max: 64,
        client_name_bytes_max: 64,
        lease_min: millis(100),
        lease_max: Duration::from_secs(3600),
        waiters_per_lock_max: 100,
        waiters_max: 1000,
        waits_per_session_max: 100,
        sessions_max: 100,
        grants_per_session_max: 100,
        locks_per_request_max: 100,
    }
}

fn next_session_id() -> SessionId {
    let bytes = SESSION_IDS.with_borrow_mut(RngExt::random);
    Builder::from_random_bytes(bytes).into_uuid().into()
}
