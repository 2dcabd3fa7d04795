//! Which channels are wanted, and at which masters they are subscribed.
//!
//! A channel is subscribed at the master of its slot: sharded messages are heard nowhere else, and whoever publishes counts only those who listen
//! there. When a slot gets another master its channels follow, and a gap is told once they are back.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{
    router::{Node, Router},
    slot::slot,
    topology::{Address, Topology},
};
use crate::{
    host::{HostError, Wake},
    shutdown::spawn_detached,
};

/// Between a node's word that a slot is elsewhere and the next try.
const MOVED_PAUSE: Duration = Duration::from_millis(20);

pub(super) struct Channels {
    router: Arc<Router>,
    /// The masters at which they are subscribed; none yet if nobody serves the slot.
    owners: Mutex<HashMap<String, Option<Address>>>,
}

// === impl Channels ===

impl Channels {
    pub(super) fn new(router: Arc<Router>) -> Self {
        Self {
            router,
            owners: Mutex::default(),
        }
    }

    /// Resolves when the master of the channel's slot has confirmed.
    pub(super) async fn subscribe(
        &self,
        channel: &str,
        deadline: Instant,
    ) -> Result<(), HostError> {
        self.owners.lock().entry(channel.to_owned()).or_default();
        loop {
            let node = self
                .router
                .master(slot(channel.as_bytes()), deadline)
                .await?;
            if !self.assign(channel, &node.address) {
                return Err(HostError::Unavailable("unsubscribed meanwhile".into()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Err(error) = node.subscriber.subscribe(channel, left).await else {
                return Ok(());
            };
            let is_moved = matches!(&error, HostError::Rejected { code, .. } if code == "MOVED");
            if is_moved {
                self.router.refresh_soon();
                sleep(MOVED_PAUSE).await;
            }
            let again = is_moved || !self.is_at(channel, &node.address);
            if !again || Instant::now() >= deadline {
                return Err(error);
            }
        }
    }

    pub(super) fn unsubscribe(&self, channel: &str) {
        let owner = self.owners.lock().remove(channel).flatten();
        self.unsubscribe_at(owner.as_ref(), channel);
    }

    /// Has the channels follow their slots.
    pub(super) fn follow(&self, topology: &Topology) {
        let mut moved = BTreeMap::<Address, Vec<String>>::new();
        {
            let mut owners = self.owners.lock();
            for (channel, owner) in owners.iter_mut() {
                let master = topology.master(slot(channel.as_bytes()));
                if let Some(master) = master.filter(|master| owner.as_ref() != Some(*master)) {
                    let before = owner.replace(master.clone());
                    self.unsubscribe_at(before.as_ref(), channel);
                    moved
                        .entry(master.clone())
                        .or_default()
                        .push(channel.clone());
                }
            }
        }
        for (master, channels) in moved {
            if let Ok(node) = self.router.node(&master) {
                self.resubscribe(node, channels);
            }
        }
    }

    fn resubscribe(&self, node: Arc<Node>, channels: Vec<String>) {
        let limit = self.router.config().call_timeout;
        let wakes = self.router.wakes().clone();
        spawn_detached("redis-resubscribe", async move {
            let subscribing = channels
                .iter()
                .map(|channel| node.subscriber.subscribe(channel, limit));
            // Those that fail are gone on with, and a gap is told when they are back.
            join_all(subscribing).await;
            wakes.send(Wake::Gap);
        });
    }

    /// Notes where a channel is subscribed; false if it is not wanted any more.
    fn assign(&self, channel: &str, master: &Address) -> bool {
        let mut owners = self.owners.lock();
        let Some(owner) = owners.get_mut(channel) else {
            return false;
        };
        if owner.as_ref() != Some(master) {
            let before = owner.replace(master.clone());
            self.unsubscribe_at(before.as_ref(), channel);
        }
        true
    }

    fn is_at(&self, channel: &str, master: &Address) -> bool {
        let owners = self.owners.lock();
        owners.get(channel).and_then(Option::as_ref) == Some(master)
    }

    fn unsubscribe_at(&self, owner: Option<&Address>, channel: &str) {
        if let Some(node) = owner.and_then(|owner| self.router.open_node(owner)) {
            node.subscriber.unsubscribe(channel);
        }
    }
}
