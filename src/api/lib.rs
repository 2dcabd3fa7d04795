//! The gRPC API of Lockkeeper, generated from `proto/`: messages, clients and servers in [`pb`],
//! how they become bytes in [`codec`]. The generated code is committed, so that who depends on this
//! crate needs no protoc.
//!
//! The comments of `proto/lockkeeper/v1/` are the contract; a client that does more than one call
//! is in the crate `lockkeeper-client`.

pub mod codec;
#[cfg(test)]
mod generate;
pub mod pb;
