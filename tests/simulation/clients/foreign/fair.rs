//! As `RFairLock`: a list of owners, and for each the moment at which it counts as dead.

use std::time::Duration;

use lockkeeper_store::{host::Value, script::keys};
use rand::RngExt as _;
use tokio::time::{Instant, timeout};

use super::{Foreign, WAKE_ONE, millis};
use crate::{
    history::Name,
    plan::{happens, pick},
};

/// A waiter looks again after this, message or not.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// How long a waiter is taken to live after those before it.
const WAITS: [u64; 2] = [5_000, 300_000];

impl Foreign {
    /// Tries, or waits for a while; sometimes it dies waiting.
    pub(super) async fn take_fair(&mut self, name: Name, lease: Duration) -> bool {
        let wait = pick(&mut self.dice, &WAITS);
        if happens(&mut self.dice, 300) {
            return self.try_fair(name, lease, wait, false);
        }
        let (host, mut wakes) = self.world.ledger.store().connect();
        let channel = keys::fair_channel(self.key(name), &self.field);
        let _ = host.subscribe(&channel).await;
        let end = Instant::now() + Duration::from_millis(self.dice.random_range(0..4000));
        let dies = happens(&mut self.dice, 200);
        while Instant::now() < end && !self.world.healed.is_cancelled() {
            if self.try_fair(name, lease, wait, true) {
                return true;
            }
            self.world.ledger.look_at(name, "foreign wait");
            let left = end.saturating_duration_since(Instant::now());
            let _ = timeout(left.min(LOOK_AGAIN), wakes.recv()).await;
        }
        let field = self.field.clone();
        if dies {
            self.died.push((name, field));
            self.start_thread();
        } else {
            self.leave_queue(name, &field);
            self.world.ledger.look_at(name, "foreign wait");
        }
        false
    }

    fn try_fair(&self, name: Name, lease: Duration, wait: u64, queues_up: bool) -> bool {
        let (queue, deadlines) = self.queue_keys(name);
        self.evict_stale(name);
        let head = self.head(name);
        if !self.world.ledger.is_held(name) && head.as_ref().is_none_or(|of| *of == self.field) {
            self.world.ledger.command(&["LPOP", &queue]);
            self.integer(&["ZREM", &deadlines, &self.field]);
            for member in self.texts(&["LRANGE", &queue, "0", "-1"]) {
                self.move_deadline(&deadlines, &member, wait);
            }
            return self.try_sole(name, lease);
        }
        if queues_up && self.deadline(&deadlines, &self.field).is_none() {
            let now = self.now();
            let last = self.text(&["LINDEX", &queue, "-1"]);
            let last = last.and_then(|last| self.deadline(&deadlines, &last));
            let base = last.map_or_else(
                || u64::try_from(self.integer(&["PTTL", self.key(name)])).unwrap_or(0),
                |last| last.saturating_sub(now),
            );
            let score = (now + base + wait).to_string();
            self.integer(&["ZADD", &deadlines, &score, &self.field]);
            self.integer(&["RPUSH", &queue, &self.field]);
        }
        false
    }

    pub(super) fn leave_queue(&self, name: Name, field: &str) {
        let (queue, deadlines) = self.queue_keys(name);
        self.integer(&["ZREM", &deadlines, field]);
        self.integer(&["LREM", &queue, "0", field]);
    }

    pub(super) fn wake_head(&self, name: Name) {
        self.evict_stale(name);
        if let Some(head) = self.head(name) {
            let channel = keys::fair_channel(self.key(name), &head);
            self.integer(&["PUBLISH", &channel, WAKE_ONE]);
        }
    }

    fn evict_stale(&self, name: Name) {
        let (queue, deadlines) = self.queue_keys(name);
        while let Some(head) = self.head(name) {
            let dead = self.deadline(&deadlines, &head);
            if dead.is_none_or(|deadline| deadline > self.now()) {
                return;
            }
            self.integer(&["ZREM", &deadlines, &head]);
            self.world.ledger.command(&["LPOP", &queue]);
        }
    }

    fn head(&self, name: Name) -> Option<String> {
        self.text(&["LINDEX", &self.queue_keys(name).0, "0"])
    }

    fn deadline(&self, deadlines: &str, member: &str) -> Option<u64> {
        self.text(&["ZSCORE", deadlines, member])?.parse().ok()
    }

    fn move_deadline(&self, deadlines: &str, member: &str, by: u64) {
        if let Some(deadline) = self.deadline(deadlines, member) {
            let moved = deadline.saturating_sub(by).to_string();
            self.world
                .ledger
                .command(&["ZADD", deadlines, &moved, member]);
        }
    }

    /// By the clock of the store, with which this client's agrees.
    fn now(&self) -> u64 {
        let Value::Array(parts) = self.world.ledger.command(&["TIME"]) else {
            return 0;
        };
        let parts: Vec<u64> = parts
            .iter()
            .filter_map(|part| match part {
                Value::Bytes(text) => str::from_utf8(text).ok()?.parse().ok(),
                _ => None,
            })
            .collect();
        let span = Duration::from_secs(parts[0]) + Duration::from_micros(parts[1]);
        millis(span)
    }

    fn queue_keys(&self, name: Name) -> (String, String) {
        let key = self.key(name);
        (
            keys::queue(key).to_string(),
            keys::queue_deadlines(key).to_string(),
        )
    }
}
