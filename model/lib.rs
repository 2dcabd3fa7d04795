//! The protocol of Lockkeeper as a model, which [stateright](https://docs.rs/stateright) explores:
//! every order of steps within stated bounds. `docs/proof.md` says what it covers.
//!
//! [`session`] is sessions and leases on one store, [`quorum`] a lock on three. Both take decisions
//! by the code of the product where that is a function: how long a lease is relied on, and how
//! votes are counted.

pub mod explore;
pub mod quorum;
pub mod session;
#[cfg(test)]
mod tests;
mod times;
