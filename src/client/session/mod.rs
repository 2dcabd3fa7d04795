//! Sessions: their handles, and the task that runs each of them.
//!
//! [`driver`] is the task. It carries out what the [`Machine`](crate::machine) of the session
//! decides.

mod builder;
mod command;
mod driver;
mod election;
mod event;
mod handle;
mod latch;
mod requests;
mod semaphore;

pub(crate) use self::command::{Held, unexpected};
pub use self::{
    builder::SessionBuilder,
    election::{Election, Leadership},
    event::{SessionEvent, SessionEvents, SessionState},
    handle::Session,
    latch::Latch,
    requests::{LockRequest, LocksRequest, PermitsRequest},
    semaphore::Semaphore,
};
