//! Locks with one owner, fair ones, and read/write locks: one lock in one mode.

pub(crate) mod acquire;
pub(crate) mod attempt;
pub(crate) mod delivery;
pub(crate) mod describe;
pub(crate) mod outcome;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod request;
