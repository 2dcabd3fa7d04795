//! Which channels are wanted, and at which masters they are subscribed.
//!
//! A channel is subscribed at the master of its slot: sharded messages are heard nowhere else, and
//! a publisher counts only listeners there. When a slot gets another master its channels follow,
//! and a gap is sent once they are back.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures::future::join_all;
use lockkeeper_base::tasks::spawn_detached;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{
    super::address::Address,
    router::{Node, Router},
    slot::slot,
    topology::Topology,
};
use crate::host::{HostError, Wake};

/// Between a node's word that a slot is elsewhere and the next try.
const MOVED_PAUSE: Duration = Duration::from_millis(20);

pub(super) struct Channels {
    router: Arc<Router>,
    wanted: Arc<Mutex<Wanted>>,
}

type Wanted = HashMap<String, Place>;

/// Where a channel that is wanted is subscribed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The master of its slot is being looked up.
    Sought,
    /// Nowhere, because no node serves its slot, or none did in time.
    Nowhere,
    At(Address),
}

// === impl Channels ===

impl Channels {
    pub(super) fn new(router: Arc<Router>) -> Self {
        Self {
            router,
            wanted: Arc::default(),
        }
    }

    /// Resolves when the master of the channel's slot has confirmed.
    pub(super) async fn subscribe(
        &self,
        channel: &str,
        deadline: Instant,
    ) -> Result<(), HostError> {
        self.seek(channel);
        loop {
            let master = self.router.master(slot(channel.as_bytes()), deadline);
            let node = match master.await {
                Ok(node) => node,
                Err(error) => {
                    self.give_up_seeking(channel);
                    return Err(error);
                }
            };
            if !self.assign(channel, &node.address) {
                return Err(HostError::Unavailable("unsubscribed meanwhile".into()));
            }
            // The channels may have followed a change of masters before this one was noted.
            if self.is_outdated(&node.address, channel) {
                continue;
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
        let place = self.wanted.lock().remove(channel);
        self.leave(place, channel);
    }

    /// Has the channels follow their slots.
    pub(super) fn follow(&self, topology: &Topology) {
        let mut moved = BTreeMap::<Address, Vec<String>>::new();
        for (channel, place) in self.wanted.lock().iter_mut() {
            let master = topology.master(slot(channel.as_bytes()));
            // What is not served is left, so that it is subscribed anew when the same master is
            // back, whose connection may have been closed meanwhile.
            let here = master.map_or(Place::Nowhere, |master| Place::At(master.clone()));
            if *place == Place::Sought || *place == here {
                continue;
            }
            let before = std::mem::replace(place, here);
            self.leave(Some(before), channel);
            if let Some(master) = master {
                let channels = moved.entry(master.clone()).or_default();
                channels.push(channel.clone());
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
        let wanted = Arc::clone(&self.wanted);
        spawn_detached("redis-resubscribe", async move {
            let subscribing = channels
                .iter()
                .map(|channel| node.subscriber.subscribe(channel, limit));
            // Failed ones are retried, and a gap is sent when they are back.
            join_all(subscribing).await;
            leave_unwanted(&wanted, &node.address, &channels, |channel| {
                node.subscriber.unsubscribe(channel);
            });
            wakes.send(Wake::Gap);
        });
    }

    fn seek(&self, channel: &str) {
        let mut wanted = self.wanted.lock();
        wanted.entry(channel.to_owned()).or_insert(Place::Sought);
    }

    /// The channel stays wanted: it is subscribed, and a gap sent, when a node serves its slot.
    fn give_up_seeking(&self, channel: &str) {
        if let Some(place @ Place::Sought) = self.wanted.lock().get_mut(channel) {
            *place = Place::Nowhere;
        }
        // A node may do so since a moment ago.
        if let Some(topology) = self.router.known_topology() {
            self.follow(&topology);
        }
    }

    /// Notes where a channel is subscribed; false if it is not wanted any more.
    fn assign(&self, channel: &str, master: &Address) -> bool {
        let mut wanted = self.wanted.lock();
        let Some(place) = wanted.get_mut(channel) else {
            return false;
        };
        let here = Place::At(master.clone());
        if *place != here {
            let before = std::mem::replace(place, here);
            self.leave(Some(before), channel);
        }
        true
    }

    /// Whether the channel's slot is known to have another master by now.
    fn is_outdated(&self, master: &Address, channel: &str) -> bool {
        let known = self.router.known_topology();
        let known = known.as_deref();
        let now = known.and_then(|known| known.master(slot(channel.as_bytes())));
        now.is_some_and(|now| now != master)
    }

    fn is_at(&self, channel: &str, master: &Address) -> bool {
        is_at(&self.wanted.lock(), channel, master)
    }

    fn leave(&self, place: Option<Place>, channel: &str) {
        if let Some(Place::At(master)) = place
            && let Some(node) = self.router.open_node(&master)
        {
            node.subscriber.unsubscribe(channel);
        }
    }
}

fn is_at(wanted: &Wanted, channel: &str, master: &Address) -> bool {
    matches!(wanted.get(channel), Some(Place::At(at)) if at == master)
}

/// Leaves those channels of a node that were unsubscribed, or moved on, before the node was asked
/// to subscribe them. Under the lock, so that a later subscription comes after it.
fn leave_unwanted(
    wanted: &Mutex<Wanted>,
    master: &Address,
    channels: &[String],
    leave: impl Fn(&str),
) {
    let wanted = wanted.lock();
    let unwanted = channels.iter();
    let unwanted = unwanted.filter(|channel| !is_at(&wanted, channel, master));
    unwanted.for_each(|channel| leave(channel));
}

#[cfg(test)]
#[path = "channels_tests.rs"]
mod tests;
