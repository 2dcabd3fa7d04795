//! The client under its former path; use the crate `lockkeeper-client` instead. It goes with the
//! next release.

pub use lockkeeper_client as client;
