//! The session machine of `clients/session-machine.md`: events and the time go in, effects come
//! out. It has no stream, task, channel or clock; [`Driver`](crate::session) has them.
//!
//! [`state`] and [`frames`] pass each event to the part that it concerns: [`stream`] is the state
//! of the stream and how it is resumed, [`operations`] are the requests without an answer,
//! [`holding_table`] is what is held and by which guards.

mod entries;
mod event;
mod frames;
mod holding_table;
mod operation;
mod operations;
mod outcome;
mod renewal_times;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod timers;

pub(crate) use self::{
    event::{Completion, Effect, Event, Ids, NewOperation, closed},
    state::Machine,
};
