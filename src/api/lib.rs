//! The gRPC API of Lockkeeper.
#![doc = include_str!("README.md")]

pub mod codec;
pub mod pb;
