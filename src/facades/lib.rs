//! Facades: programs of other systems, unchanged, take locks in Lockkeeper. Each facade is a
//! protocol of another system over the operations of a coordinator, off by default, under the same
//! access rules and limits as other calls. What a facade cannot promise it refuses.
//!
//! - [`etcd`]: the services for leases, locks and elections.
//! - [`dapr`]: the calls of the distributed lock.
//! - [`terraform`]: the locks of the http backend.

pub mod dapr;
mod door;
pub mod etcd;
mod served;
pub mod terraform;

pub use door::Door;
pub use served::Facades;

/// The descriptors of all services.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
