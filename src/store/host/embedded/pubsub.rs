//! Who listens to which channel.

use std::collections::HashMap;

use bytes::Bytes;

use crate::host::{Wake, WakeSender};

/// Tells the clients of a store apart.
pub(super) type ClientId = u64;

/// The subscriptions of all clients. Those of a channel are in the order in which they were made,
/// so that delivery is the same in every run of a simulation.
#[derive(Debug, Default)]
pub(super) struct PubSub {
    channels: HashMap<String, Vec<(ClientId, WakeSender)>>,
}

// === impl PubSub ===

impl PubSub {
    /// Subscribes a client; twice is once.
    pub(super) fn subscribe(&mut self, channel: &str, client: ClientId, wakes: &WakeSender) {
        let listeners = self.channels.entry(channel.to_owned()).or_default();
        if !listeners.iter().any(|(id, _)| *id == client) {
            listeners.push((client, wakes.clone()));
        }
    }

    /// Ends one subscription of a client, if there is one.
    pub(super) fn unsubscribe(&mut self, channel: &str, client: ClientId) {
        if let Some(listeners) = self.channels.get_mut(channel) {
            listeners.retain(|(id, _)| *id != client);
            if listeners.is_empty() {
                self.channels.remove(channel);
            }
        }
    }

    /// Ends all subscriptions of a client.
    pub(super) fn remove(&mut self, client: ClientId) {
        self.channels.retain(|_, listeners| {
            listeners.retain(|(id, _)| *id != client);
            !listeners.is_empty()
        });
    }

    /// Hands a message to all listeners and returns how many. A client that no longer reads
    /// its wakes does not count.
    pub(super) fn publish(&self, channel: &[u8], payload: &[u8]) -> usize {
        // Channels are subscribed to as text, so one that is not has no listeners.
        let Some((channel, listeners)) = str::from_utf8(channel)
            .ok()
            .and_then(|channel| self.channels.get_key_value(channel))
        else {
            return 0;
        };
        let payload = Bytes::copy_from_slice(payload);
        let open = listeners.iter().filter(|(_, wakes)| !wakes.is_closed());
        open.map(|(_, wakes)| {
            wakes.send(Wake::Message {
                channel: channel.clone(),
                payload: payload.clone(),
            });
        })
        .count()
    }

    /// How many clients listen to a channel.
    pub(super) fn count(&self, channel: &str) -> usize {
        self.channels.get(channel).map_or(0, Vec::len)
    }
}
