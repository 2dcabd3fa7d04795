//! Which channels are wanted, and at which masters they are subscribed.
//!
//! A channel is subscribed at the master of its slot: sharded messages are heard nowhere else, and
//! a publisher counts only listeners there. When a slot gets another master its channels follow,
//! and a gap is sent once they are back.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures::future::join_all;
use lockkeeper_base::tasks::spawn_detached;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{super::address::Address, router::Router, slot::slot, topology::Topology};
use crate::host::{HostError, Wake};

pub(super) struct Channels {
    router: Arc<Router>,
    /// Where each channel that is wanted is subscribed. Nodes get the changes under the lock, so in
    /// their order.
    wanted: Mutex<HashMap<String, Place>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// The masters are not known yet. What was not subscribed has nothing to miss.
    Sought,
    /// No node serves its slot, or none did in time.
    Nowhere,
    At(Address),
}

// === impl Channels ===

impl Channels {
    pub(super) fn new(router: Arc<Router>) -> Self {
        let wanted = Mutex::default();
        Self { router, wanted }
    }

    /// Resolves when the master of the channel's slot has confirmed. After an error the channel
    /// stays wanted: it is subscribed, and a gap sent, when that is possible.
    pub(super) async fn subscribe(
        &self,
        channel: &str,
        deadline: Instant,
    ) -> Result<(), HostError> {
        let name = channel.to_owned();
        self.wanted.lock().entry(name).or_insert(Place::Sought);
        // What there is by then shows in the next step.
        let _ = self.router.topology(deadline).await;
        self.place(channel, deadline)?.await
    }

    pub(super) fn unsubscribe(&self, channel: &str) {
        let mut wanted = self.wanted.lock();
        if let Some(place) = wanted.remove(channel) {
            self.leave(&place, channel);
        }
    }

    /// Has the channels follow their slots.
    pub(super) fn follow(&self, topology: &Topology) {
        let limit = self.router.config().call_timeout;
        let mut moved = BTreeMap::<_, Vec<_>>::new();
        for (channel, place) in self.wanted.lock().iter_mut() {
            let master = topology.master(slot(channel.as_bytes()));
            // What is not served is left, so that it is subscribed anew when the same master is
            // back, whose connection may have been closed meanwhile.
            let here = master.map_or(Place::Nowhere, |master| Place::At(master.clone()));
            if *place == Place::Sought || *place == here {
                continue;
            }
            self.leave(&std::mem::replace(place, here), channel);
            if let Some(master) = master
                && let Ok(node) = self.router.node(master)
            {
                let subscribed = node.subscriber.subscribe(channel, limit);
                moved.entry(master).or_default().push(subscribed);
            }
        }
        for subscribed in moved.into_values() {
            let wakes = self.router.wakes().clone();
            spawn_detached("redis-resubscribe", async move {
                // Failed ones are retried, and a gap is sent when they are back.
                join_all(subscribed).await;
                wakes.send(Wake::Gap);
            });
        }
    }

    /// Subscribes at the master of the channel's slot.
    fn place(
        &self,
        channel: &str,
        deadline: Instant,
    ) -> Result<impl Future<Output = Result<(), HostError>> + Send + use<>, HostError> {
        // A change of masters that is not known under the lock is followed after it.
        let mut wanted = self.wanted.lock();
        let unsubscribed = || HostError::Unavailable("unsubscribed meanwhile".into());
        let place = wanted.get_mut(channel).ok_or_else(unsubscribed)?;
        let node = match place {
            Place::At(master) => self.router.node(master)?,
            Place::Sought | Place::Nowhere => {
                *place = Place::Nowhere;
                self.router.known_master(slot(channel.as_bytes()))?
            }
        };
        *place = Place::At(node.address.clone());
        let left = deadline.saturating_duration_since(Instant::now());
        Ok(node.subscriber.subscribe(channel, left))
    }

    fn leave(&self, place: &Place, channel: &str) {
        if let Place::At(master) = place
            && let Some(node) = self.router.open_node(master)
        {
            node.subscriber.unsubscribe(channel);
        }
    }
}

#[cfg(test)]
#[path = "channels_tests.rs"]
mod tests;
