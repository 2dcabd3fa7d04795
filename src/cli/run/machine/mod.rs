//! A pure state machine: inputs with their times in, actions out. It has no session, process or
//! clock; [`Io`](super::io::Io) has them.
//!
//! ```text
//! Opening    ── opened ─────────> Waiting
//! Waiting    ── granted ────────> Confirming
//! Waiting    ── session ended ──> Opening
//! Confirming ── renewed ────────> Starting
//! Starting   ── started ────────> Running
//! Running    ── exited ─────────> Closing ──> exit
//! Running    ── lost, too late ─> Stopping ──> Closing
//! all before Running ── signal, not granted, lost, cannot start ──> Closing
//! ```

mod answers;
mod event;
mod state;
#[cfg(test)]
mod tests;

pub(super) use self::{
    event::{Action, Input, Plan},
    state::Machine,
};
