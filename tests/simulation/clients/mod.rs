//! Those who want locks: clients with sessions, clients without, some of which take several at
//! once, and one that uses the store by itself as Redisson does.

mod ask;
mod foreign;
mod session;
mod sessionless;
mod several;

pub(crate) use ask::SELF_DEADLOCK;
pub(crate) use foreign::foreign;
pub(crate) use session::session_client;
pub(crate) use sessionless::sessionless_client;
pub(crate) use several::several_client;

use std::time::Duration;

use rand::RngExt as _;

use super::{plan::Dice, world::World};

/// A pause around the plan's mean.
fn pause(world: &World, dice: &mut Dice) -> Duration {
    world.plan.pause.mul_f64(dice.random_range(0.05..2.0))
}
