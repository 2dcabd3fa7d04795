//! Semaphores: permits that expire.

pub(crate) mod acquire;
pub(crate) mod attempt;
pub(crate) mod describe;
pub(crate) mod outcome;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod request;
#[cfg(test)]
mod tests;
