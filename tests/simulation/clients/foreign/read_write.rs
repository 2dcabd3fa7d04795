//! As `RReadWriteLock`: a hash with the mode and all holders, and a key with a time to live for
//! each read hold. It knows of no waiting writers.

use std::time::Duration;

use lockkeeper_store::script::keys;

use super::{Foreign, WAKE_ALL, WAKE_ONE, millis};
use crate::history::Name;

impl Foreign {
    pub(super) fn try_read(&self, name: Name, lease: Duration) -> bool {
        let key = self.key(name);
        let lease_ms = i64::try_from(millis(lease)).unwrap_or(0);
        match self.text(&["HGET", key, "mode"]).as_deref() {
            None => {
                self.integer(&["HSET", key, "mode", "read"]);
            }
            Some("read") => {}
            Some(_) => return false,
        }
        let count = self.integer(&["HINCRBY", key, &self.field, "1"]);
        let hold = self.hold_key(name, &self.field, count);
        self.world
            .ledger
            .command(&["SET", &hold, "1", "PX", &lease_ms.to_string()]);
        let longest = self.integer(&["PTTL", key]).max(lease_ms);
        self.integer(&["PEXPIRE", key, &longest.to_string()]);
        true
    }

    pub(super) fn unlock_read(&self, name: Name) {
        let key = self.key(name);
        if self.integer(&["HEXISTS", key, &self.field]) != 1 {
            return;
        }
        let left = self.integer(&["HINCRBY", key, &self.field, "-1"]);
        if left == 0 {
            self.integer(&["HDEL", key, &self.field]);
        }
        self.integer(&["DEL", &self.hold_key(name, &self.field, left + 1)]);
        let mut longest = 0;
        for pair in self.texts(&["HGETALL", key]).chunks(2) {
            let count: i64 = pair[1].parse().unwrap_or(0);
            for hold in 1..=count {
                longest =
                    longest.max(self.integer(&["PTTL", &self.hold_key(name, &pair[0], hold)]));
            }
        }
        if longest > 0 {
            self.integer(&["PEXPIRE", key, &longest.to_string()]);
        } else if self.text(&["HGET", key, "mode"]).as_deref() != Some("write") {
            self.integer(&["DEL", key]);
            self.integer(&["PUBLISH", &keys::rw_channel(key), WAKE_ONE]);
        }
    }

    pub(super) fn try_write(&self, name: Name, lease: Duration) -> bool {
        let key = self.key(name);
        if self.world.ledger.is_held(name) {
            return false;
        }
        let field = self.write_field();
        self.integer(&["HSET", key, "mode", "write"]);
        self.integer(&["HSET", key, &field, "1"]);
        self.integer(&["PEXPIRE", key, &millis(lease).to_string()]);
        true
    }

    pub(super) fn unlock_write(&self, name: Name) {
        let key = self.key(name);
        if self.integer(&["HDEL", key, &self.write_field()]) == 1 {
            self.integer(&["DEL", key]);
            self.integer(&["PUBLISH", &keys::rw_channel(key), WAKE_ALL]);
        }
    }

    fn write_field(&self) -> String {
        format!("{}:write", self.field)
    }

    fn hold_key(&self, name: Name, field: &str, hold: i64) -> String {
        let prefix = keys::read_holds(self.key(name), field);
        format!("{prefix}:{hold}")
    }
}
