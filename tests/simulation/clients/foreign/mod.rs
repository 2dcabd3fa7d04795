//! A client that talks to the store by itself, with the commands of Redisson's `RLock`, `RFairLock`
//! and `RReadWriteLock` scripts.

mod fair;
mod read_write;

use std::time::Duration;

use lockkeeper_store::{
    host::Value,
    script::{Mode, keys},
};
use rand::RngExt as _;
use tokio::time::sleep;

use super::pause;
use crate::{
    history::{Holder, Name, What},
    plan::{Dice, happens, pick},
    world::World,
};

struct Foreign {
    world: World,
    dice: Dice,
    number: u64,
    thread: u64,
    holder: Holder,
    field: String,
    /// Fair locks in whose queues threads of this client died, and those threads' fields.
    died: Vec<(Name, String)>,
}

/// What is passed on by `PUBLISH` when one waiter may come, and when all may.
const WAKE_ONE: &str = "0";
const WAKE_ALL: &str = "1";

/// Takes locks and gives them back, or forgets to, until the healing begins.
pub(crate) async fn foreign(world: World, number: u64) {
    let dice = world.plan.dice(number);
    let mut this = Foreign {
        holder: Holder::sessionless(0),
        world,
        dice,
        number,
        thread: 0,
        field: String::new(),
        died: Vec::new(),
    };
    this.start_thread();
    while !this.world.healed.is_cancelled() {
        let wait = pause(&this.world, &mut this.dice) * 4;
        sleep(wait).await;
        this.hold_once().await;
    }
    // Redisson's queues have no time to live, so what it leaves there is its own to take away.
    for (name, field) in std::mem::take(&mut this.died) {
        this.leave_queue(name, &field);
    }
}

// === impl Foreign ===

impl Foreign {
    /// From now on it acts as another thread, which is another owner.
    fn start_thread(&mut self) {
        self.thread += 1;
        let (number, thread) = (self.number, self.thread);
        self.field = format!("5e0b1f1c-0000-4000-8000-0000000000{number:02}:{thread}");
        self.holder = Holder::sessionless(self.world.history.next_label());
        self.world.history.is_field_of(&self.field, self.holder);
    }

    async fn hold_once(&mut self) {
        let name = self.dice.random_range(0..self.world.ledger.names().len());
        let lease = pick(&mut self.dice, &self.world.plan.leases);
        let family = self.world.ledger.family(name);
        let mode = family.mode(&mut self.dice, self.world.plan.manners.reads);
        let taken = match mode {
            Mode::Exclusive => self.try_sole(name, lease),
            Mode::Fair => self.take_fair(name, lease).await,
            Mode::Read => self.try_read(name, lease),
            Mode::Write => self.try_write(name, lease),
        };
        if !taken {
            return;
        }
        let holder = self.holder.with(mode);
        let until = self.world.history.now() + millis(lease);
        self.world.ledger.look_at(name, "foreign lock");
        self.world
            .history
            .record(What::Foreign(holder, name, Some(until)));
        if happens(&mut self.dice, 200) {
            sleep(lease + Duration::from_millis(1)).await;
            return;
        }
        let held_for = lease.mul_f64(self.dice.random_range(0.0..0.9));
        sleep(held_for).await;
        self.world.history.record(What::Foreign(holder, name, None));
        match mode {
            Mode::Exclusive | Mode::Fair => self.unlock_sole(name, mode),
            Mode::Read => self.unlock_read(name),
            Mode::Write => self.unlock_write(name),
        }
        self.world.ledger.look_at(name, "foreign unlock");
    }

    fn try_sole(&self, name: Name, lease: Duration) -> bool {
        if self.world.ledger.is_held(name) {
            return false;
        }
        let key = self.key(name);
        self.integer(&["HINCRBY", key, &self.field, "1"]);
        self.integer(&["PEXPIRE", key, &millis(lease).to_string()]);
        true
    }

    fn unlock_sole(&self, name: Name, mode: Mode) {
        let key = self.key(name);
        if self.integer(&["HEXISTS", key, &self.field]) != 1 {
            return;
        }
        self.integer(&["DEL", key]);
        if mode == Mode::Fair {
            self.wake_head(name);
        } else {
            self.integer(&["PUBLISH", &keys::channel(key), WAKE_ONE]);
        }
    }

    fn key(&self, name: Name) -> &'static str {
        self.world.ledger.names()[name]
    }

    /// What a command answers that answers with a number; -1 if it does not.
    fn integer(&self, words: &[&str]) -> i64 {
        match self.world.ledger.command(words) {
            Value::Int(number) => number,
            _ => -1,
        }
    }

    /// What a command answers that answers with a text.
    fn text(&self, words: &[&str]) -> Option<String> {
        match self.world.ledger.command(words) {
            Value::Bytes(text) => String::from_utf8(text.to_vec()).ok(),
            _ => None,
        }
    }

    fn texts(&self, words: &[&str]) -> Vec<String> {
        let Value::Array(values) = self.world.ledger.command(words) else {
            return Vec::new();
        };
        let texts = values.iter().filter_map(|value| match value {
            Value::Bytes(text) => String::from_utf8(text.to_vec()).ok(),
            _ => None,
        });
        texts.collect()
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(0)
}
