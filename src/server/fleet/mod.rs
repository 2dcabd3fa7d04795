//! The other coordinators of the store: announcing this one to them, and asking them what only they
//! know. A question goes to each of them with the caller's own bearer token, so it is judged there
//! as if the caller had asked itself, and is not passed on any further.

mod connect;
mod forwarded;
mod lists;
mod peers;
mod questions;
mod watch;

pub use self::{
    connect::{Connect, connect},
    peers::{Config, Fleet},
};
pub(crate) use self::{
    forwarded::{Forwarded, ON_BEHALF},
    peers::{ANSWERED_BY, Asked},
    questions::{in_order, sessions_ended},
    watch::named,
};
