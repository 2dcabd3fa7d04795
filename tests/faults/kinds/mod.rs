//! Programs that use every kind of lock through the official client, beside the contenders. What
//! they do and are answered is kept as lines; `tests/porcupine` judges it.

mod election;
mod idle;
mod latch;
mod locks;
mod semaphore;
mod user;

pub(crate) use self::{
    election::Terms,
    idle::{count, idle},
    user::{User, WAIT, prepare, uses},
};
