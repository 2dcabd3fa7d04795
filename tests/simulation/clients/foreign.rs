//! A client that talks to the store by itself, with the commands of Redisson's `RLock` scripts.

use std::time::Duration;

use lockkeeper::{host::Value, script::keys};
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
    holder: Holder,
    field: String,
}

/// Takes locks and gives them back, or forgets to, until the healing begins.
pub(crate) async fn foreign(world: World, number: u64) {
    let holder = Holder {
        session: None,
        label: world.history.next_label(),
    };
    let field = format!("5e0b1f1c-0000-4000-8000-0000000000{number:02}:1");
    world.history.is_field_of(&field, holder);
    let dice = world.plan.dice(number);
    let mut this = Foreign {
        world,
        dice,
        holder,
        field,
    };
    while !this.world.healed.is_cancelled() {
        let wait = pause(&this.world, &mut this.dice) * 4;
        sleep(wait).await;
        this.hold_once().await;
    }
}

// === impl Foreign ===

impl Foreign {
    async fn hold_once(&mut self) {
        let name = self.dice.random_range(0..self.world.ledger.names().len());
        let lease = pick(&mut self.dice, &self.world.plan.leases);
        if !self.try_lock(name, lease) {
            return;
        }
        if happens(&mut self.dice, 200) {
            sleep(lease + Duration::from_millis(1)).await;
            return;
        }
        let held_for = lease.mul_f64(self.dice.random_range(0.0..0.9));
        sleep(held_for).await;
        self.world
            .history
            .record(What::Foreign(self.holder, name, None));
        self.unlock(name);
    }

    fn try_lock(&self, name: Name, lease: Duration) -> bool {
        let (history, ledger) = (&self.world.history, &self.world.ledger);
        let key = ledger.names()[name];
        if ledger.is_held(name) {
            return false;
        }
        let lease_ms = lease.as_millis().to_string();
        ledger.command(&["HINCRBY", key, &self.field, "1"]);
        ledger.command(&["PEXPIRE", key, &lease_ms]);
        ledger.look_at(name, "foreign lock");
        let until = history.now() + u64::try_from(lease.as_millis()).unwrap_or(0);
        history.record(What::Foreign(self.holder, name, Some(until)));
        true
    }

    fn unlock(&self, name: Name) {
        let ledger = &self.world.ledger;
        let key = ledger.names()[name];
        if ledger.command(&["HEXISTS", key, &self.field]) == Value::Int(1) {
            ledger.command(&["DEL", key]);
            ledger.command(&["PUBLISH", &keys::channel(key), "0"]);
            ledger.look_at(name, "foreign unlock");
        }
    }
}
