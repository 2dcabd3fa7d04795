//! Facades: programs of other systems, unchanged, take locks in Lockkeeper. Each facade is a
//! protocol of another system over the operations of a coordinator, off by default, under the same
//! access rules and limits as other calls. What a facade cannot promise it refuses.
//!
//! - [`etcd`]: the services for leases, locks and elections.

mod door;
pub mod etcd;

pub use door::Door;
