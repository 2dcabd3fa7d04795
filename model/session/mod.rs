//! The model of sessions and leases on one store that may fail over.

mod breakage;
mod call;
mod client;
mod coordinator;
mod lock;
mod protocol;
mod state;
mod store;
mod symmetry;
pub mod trace;

pub use self::{
    breakage::Breakage,
    protocol::{Action, Bounds, Protocol},
    state::State,
};
