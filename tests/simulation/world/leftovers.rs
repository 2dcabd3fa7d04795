//! The look at what is left when all is over.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_coordinator::Load;
use lockkeeper_store::{host::Value, script::keys};
use tokio::time::sleep;

use super::{REQUEST_RETENTION, World};
use crate::history::What;

/// How long a queue that nobody looks after outlives its waiters, those of the other program
/// included.
const QUEUE_RETENTION: Duration = Duration::from_secs(7200);

impl World {
    fn known_keys(&self) -> Vec<Bytes> {
        let names = self.ledger.names().iter();
        names.flat_map(|name| keys_of(name)).collect()
    }

    fn time_to_live(&self, key: &Bytes) -> Value {
        self.ledger.command(&[b"PTTL".as_ref(), key])
    }

    /// When all leases are over and all clients are gone, nothing may be left.
    pub(crate) async fn look_for_leftovers(&self) {
        let broke = |rule: String| self.history.record(What::Broke(rule));
        sleep(self.plan.lease_max() * 2 + Duration::from_secs(5)).await;
        for node in self.live_nodes() {
            let load = node.coordinator.load();
            if load != Load::default() {
                broke(format!("node {} still has {load:?}", node.number));
            }
        }
        for (number, name) in self.ledger.names().iter().enumerate() {
            if self.ledger.is_held(number) {
                broke(format!("lock {number} is still in the store"));
            }
            let channels = [keys::channel(name), keys::rw_channel(name)];
            let listeners = channels.map(|of| self.ledger.store().subscription_count(&of));
            let listeners: usize = listeners.iter().sum();
            if listeners > 0 {
                broke(format!("{listeners} still listen for lock {number}"));
            }
        }
        for key in self.known_keys() {
            if self.time_to_live(&key) == Value::Int(-1) {
                broke(format!("{key:?} has no time to live"));
            }
        }
        for node in self.live_nodes() {
            if !node.coordinator.stop(Duration::from_secs(5)).await {
                broke(format!("node {} does not stop", node.number));
            }
        }
        sleep(QUEUE_RETENTION + REQUEST_RETENTION).await;
        let left = |key: &Bytes| self.time_to_live(key) != Value::Int(-2);
        let left: Vec<Bytes> = self.known_keys().into_iter().filter(left).collect();
        let counters = self
            .ledger
            .names()
            .iter()
            .map(|name| keys::counter(name).to_bytes());
        let expected = counters.filter(|counter| left.contains(counter)).count();
        let keys = self.ledger.store().key_count();
        if keys != expected {
            broke(format!(
                "{keys} keys are left, {expected} of them counters: {left:?} and others"
            ));
        }
    }
}

/// The keys of a lock that are always called the same.
fn keys_of(name: &str) -> [Bytes; 7] {
    [
        keys::lock(name).to_bytes(),
        keys::counter(name).to_bytes(),
        keys::queue(name).to_bytes(),
        keys::queue_deadlines(name).to_bytes(),
        keys::vouched_waiters(name).to_bytes(),
        keys::readers(name).to_bytes(),
        keys::writer_waiting(name).to_bytes(),
    ]
}
