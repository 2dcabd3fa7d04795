//! Operations on one lock in one mode: exclusive, fair, read, write.

pub(crate) mod acquire;
pub(crate) mod attempt;
pub(crate) mod delivery;
pub(crate) mod describe;
pub(crate) mod hand_over;
pub(crate) mod outcome;
pub(crate) mod preferred;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod request;
pub(crate) mod ticket;
