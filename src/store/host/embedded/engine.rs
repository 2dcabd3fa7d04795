//! What commands see and change.

use super::{clock::Clock, keyspace::Keyspace, pubsub::PubSub, reply::Refusal};

/// Keys, subscriptions and the time.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) clock: Clock,
    pub(super) keys: Keyspace,
    pub(super) pubsub: PubSub,
    pub(super) out_of_memory: bool,
    now_micros: i64,
    /// Whether the script that runs has written. From then on memory no longer matters: stopping
    /// midway would be worse than using more.
    script_has_written: bool,
}

// === impl Engine ===

impl Engine {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            keys: Keyspace::default(),
            pubsub: PubSub::default(),
            out_of_memory: false,
            now_micros: 0,
            script_has_written: false,
        }
    }

    /// Takes the time at which everything until the next call of this happens.
    pub(super) fn begin(&mut self) {
        self.now_micros = self.clock.now_micros();
        self.keys.set_now(self.now_micros.div_euclid(1000));
        self.script_has_written = false;
    }

    pub(super) fn now_micros(&self) -> i64 {
        self.now_micros
    }

    /// Refuses a command that needs memory when there is none and the script has not yet written.
    pub(super) fn admit(&mut self, needs_memory: bool, writes: bool) -> Result<(), Refusal> {
        if self.out_of_memory && needs_memory && !self.script_has_written {
            return Err(Refusal::OUT_OF_MEMORY);
        }
        // A write that fails or finds nothing to do counts as one, as it does for Redis.
        self.script_has_written |= writes;
        Ok(())
    }
}
