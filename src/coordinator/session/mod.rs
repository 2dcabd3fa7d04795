//! One session: its stream, its grants, and the notices that its client has not read yet.

pub(crate) mod asked;
pub(crate) mod grant_table;
pub(crate) mod grants;
pub(crate) mod held;
pub(crate) mod notices;
pub(crate) mod peer;
pub(crate) mod permit_table;
pub(crate) mod registry;
pub(crate) mod seen;
#[expect(
    clippy::module_inception,
    reason = "the type that the folder is named for"
)]
pub(crate) mod session;
pub(crate) mod watched;
pub(crate) mod yielding;

pub use self::{
    asked::YieldRequest,
    notices::{EndedByForce, Notice},
    peer::PeerAddress,
    seen::{HolderHere, SessionSeen},
    session::Session,
};

#[cfg(test)]
mod tests;
