//! Data goes to stdout, messages to stderr; nothing else in the command line writes to either.
//! Answers are printed in words ([`lock`], [`permits`], [`election`], [`admin`]) or in the API's
//! JSON mapping.

pub(super) mod admin;
pub(super) mod election;
mod format;
mod json;
pub(super) mod lock;
mod lock_event;
pub(super) mod permits;
mod stdio;
mod table;
pub(super) mod top;
pub(super) mod why;
mod words;

pub use self::{
    format::Format,
    stdio::{print, say},
};
pub(crate) use self::{
    lock_event::lock_event,
    stdio::say_json,
    table::table,
    words::{duration, wait_ended},
};
