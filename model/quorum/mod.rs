//! The model of a lock on a quorum of three stores, with the votes counted by the code itself.

mod breakage;
mod protocol;
mod state;
mod symmetry;

pub use self::{
    breakage::Breakage,
    protocol::{Action, Bounds, Protocol},
    state::State,
};
