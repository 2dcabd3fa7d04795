//! Sessions: their handles, and the task that runs each of them.
//!
//! [`driver`] is the task. It owns the parts of a session: [`transport`] is the stream and how it
//! is resumed, [`operations`] are the requests without an answer, [`holding_table`] is what is held
//! and by which guards.

mod builder;
mod closing;
mod command;
mod driver;
mod event;
mod handle;
mod holding_table;
mod latch;
mod operation;
mod operations;
mod outcome;
mod requests;
mod semaphore;
mod timers;
mod transport;

pub(crate) use self::command::{Held, unexpected};
pub use self::{
    builder::SessionBuilder,
    event::{SessionEvent, SessionEvents, SessionState},
    handle::Session,
    latch::Latch,
    requests::{LockRequest, LocksRequest, PermitsRequest},
    semaphore::Semaphore,
};
