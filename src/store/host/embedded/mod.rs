//! The store in this process: the scripts run in a Lua machine, on keys kept in memory. For a
//! single process, for a laptop and for tests, which pause its clock; what it holds ends with the
//! process.

mod clock;
mod commands;
mod data;
mod engine;
mod keyspace;
mod number;
mod pubsub;
mod reply;
mod store;
#[cfg(test)]
mod tests;
mod vm;

pub use clock::Clock;
pub use store::EmbeddedStore;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use vm::fuzzing;
