//! Domain types. Their values are validated: the constructors enforce the limits.

mod goal;
mod grant;
mod key;
mod lease;
mod limits;
mod name;
mod note;
mod owner;
mod session;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use self::{
    goal::Goal,
    grant::{Holding, Terms, hold_of},
    key::{GrantKey, Slot},
    lease::safe_until,
    limits::over,
};
pub use self::{
    goal::WaitEnd,
    grant::{Grant, LostReason, PermitGrant},
    lease::Lease,
    limits::{Invalid, Limits},
    name::LockName,
    note::{HolderKnown, note},
    owner::{Owner, RequestId},
    session::{OnDisconnect, SessionId},
};
