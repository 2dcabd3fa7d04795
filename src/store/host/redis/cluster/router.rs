//! Which node to talk to about a slot, and the connections to it.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout_at},
};

use super::{
    super::{
        ConfigError, RedisConfig, acknowledger::Acknowledger, address::Address, endpoint::Endpoint,
        links::Links, scanner::Scanner, subscriber::Subscriber, target::Target, url::ClusterUrl,
    },
    topology::Topology,
};
use crate::host::{HostError, WakeSender};

/// For so long the connections to a node stay that serves nothing: it may be about to get its first
/// slot.
const IDLE_NODE_KEPT: Duration = Duration::from_secs(60);

/// A master, and our connections to it.
pub(super) struct Node {
    pub(super) address: Address,
    pub(super) links: Links,
    pub(super) subscriber: Subscriber,
    pub(super) acknowledger: Acknowledger,
    pub(super) scanner: Scanner,
    opened: Instant,
}

/// What is known of who serves what.
#[derive(Clone)]
pub(super) enum View {
    /// Nothing, and why.
    Unknown(Arc<str>),
    Known(Arc<Topology>),
}

pub(super) struct Router {
    config: RedisConfig,
    url: ClusterUrl,
    wakes: WakeSender,
    view: watch::Sender<View>,
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    stale: Notify,
}

// === impl Router ===

impl Router {
    pub(super) fn new(config: RedisConfig, url: ClusterUrl, wakes: WakeSender) -> Self {
        Self {
            config,
            url,
            wakes,
            view: watch::Sender::new(View::Unknown("".into())),
            nodes: Mutex::default(),
            stale: Notify::new(),
        }
    }

    pub(super) fn config(&self) -> &RedisConfig {
        &self.config
    }

    /// The nodes that the URL names.
    pub(super) fn seeds(&self) -> &[Address] {
        &self.url.seeds
    }

    pub(super) fn wakes(&self) -> &WakeSender {
        &self.wakes
    }

    /// What is known may be outdated.
    pub(super) fn refresh_soon(&self) {
        self.stale.notify_one();
    }

    /// Resolves when what is known may be outdated.
    pub(super) async fn stale(&self) {
        self.stale.notified().await;
    }

    /// Shows all waiting calls what is known now.
    pub(super) fn show(&self, view: View) {
        self.view.send_replace(view);
    }

    /// What is known now, if anything is.
    pub(super) fn known_topology(&self) -> Option<Arc<Topology>> {
        self.view.borrow().known().ok()
    }

    /// Resolves when something is known, or is known not to be; an error if that is so, or at the
    /// deadline.
    pub(super) async fn topology(&self, deadline: Instant) -> Result<Arc<Topology>, HostError> {
        if let Some(topology) = self.known_topology() {
            return Ok(topology);
        }
        let mut view = self.view.subscribe();
        let known = view.wait_for(|view| !matches!(view, View::Unknown(why) if why.is_empty()));
        let _ = timeout_at(deadline, known).await;
        self.view.borrow().known()
    }

    /// Resolves when something else is known than now.
    pub(super) async fn changed(&self) {
        let _ = self.view.subscribe().changed().await;
    }

    /// The master of a slot.
    pub(super) async fn master(
        &self,
        slot: u16,
        deadline: Instant,
    ) -> Result<Arc<Node>, HostError> {
        let topology = self.topology(deadline).await?;
        self.master_in(&topology, slot)
    }

    /// The master of a slot, by what is known now.
    pub(super) fn known_master(&self, slot: u16) -> Result<Arc<Node>, HostError> {
        let topology = self.view.borrow().known()?;
        self.master_in(&topology, slot)
    }

    fn master_in(&self, topology: &Topology, slot: u16) -> Result<Arc<Node>, HostError> {
        match topology.master(slot) {
            Some(address) => self.node(address),
            None => Err(HostError::Unavailable(format!(
                "slot {slot} is not served by any node of the cluster"
            ))),
        }
    }

    /// Resolves when another node is the master of a slot than this one.
    pub(super) async fn other_master(&self, slot: u16, than: &Address) {
        let mut view = self.view.subscribe();
        let other = view.wait_for(|view| match view {
            View::Known(topology) => topology.master(slot).is_some_and(|it| it != than),
            View::Unknown(_) => false,
        });
        if other.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// A node by its address; connections to it are opened if there are none.
    pub(super) fn node(&self, address: &Address) -> Result<Arc<Node>, HostError> {
        let mut nodes = self.nodes.lock();
        if let Some(node) = nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let node = Node::open(address, self);
        let node = node.map_err(|error| HostError::Unavailable(error.to_string()))?;
        let node = Arc::new(node);
        nodes.insert(address.clone(), Arc::clone(&node));
        Ok(node)
    }

    /// A node by its address, if there are connections to it.
    pub(super) fn open_node(&self, address: &Address) -> Option<Arc<Node>> {
        self.nodes.lock().get(address).cloned()
    }

    /// Which process the first master is, in the order of addresses: two clients of one cluster see
    /// the same.
    pub(super) fn first_run_id(&self) -> Option<Arc<str>> {
        let view = self.view.borrow().clone();
        let View::Known(topology) = view else {
            return None;
        };
        let first = self.open_node(topology.masters().first()?)?;
        first.links.run_id()
    }

    /// Opens connections to these masters, and closes those to others.
    pub(super) fn keep_only(&self, masters: &BTreeSet<&Address>) {
        self.close_others(masters);
        for address in masters {
            if let Err(error) = self.node(address) {
                tracing::warn!(%address, %error, "a node of the cluster cannot be used");
            }
        }
    }

    /// Closes the connections to all but these masters, except to what was opened only now.
    pub(super) fn close_others(&self, masters: &BTreeSet<&Address>) {
        let is_new = |node: &Node| node.opened.elapsed() < IDLE_NODE_KEPT;
        let mut nodes = self.nodes.lock();
        nodes.retain(|address, node| masters.contains(address) || is_new(node));
    }

    /// Where a node is, and how to log in.
    pub(super) fn endpoint(&self, address: &Address) -> Result<Endpoint, ConfigError> {
        let endpoint = Endpoint::new(&RedisConfig {
            url: self.url.node_url(address),
            ..self.config.clone()
        });
        endpoint.map(Endpoint::of_cluster)
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes.lock();
        f.debug_list()
            .entries(nodes.keys().map(ToString::to_string))
            .finish()
    }
}

// === impl View ===

impl View {
    fn known(&self) -> Result<Arc<Topology>, HostError> {
        match self {
            Self::Known(topology) => Ok(Arc::clone(topology)),
            Self::Unknown(why) if why.is_empty() => Err(HostError::Unavailable(
                "no node of the cluster has answered yet".into(),
            )),
            Self::Unknown(why) => Err(HostError::Unavailable(why.to_string())),
        }
    }
}

// === impl Node ===

impl Node {
    fn open(address: &Address, router: &Router) -> Result<Self, ConfigError> {
        let target = Target::Fixed(Box::new(router.endpoint(address)?));
        let config = router.config();
        Ok(Self {
            address: address.clone(),
            links: Links::open(config.connections, &target)?,
            acknowledger: Acknowledger::new(target.clone(), config.replica_ack_timeout),
            scanner: Scanner::new(target.clone(), config.call_timeout),
            subscriber: Subscriber::of_both_kinds(
                target,
                config.ping_interval,
                router.wakes.clone(),
            ),
            opened: Instant::now(),
        })
    }
}
