//! The generated messages and services of `proto/`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    reason = "generated code"
)]

tonic::include_proto!("lockkeeper.v1");

/// The descriptors of all of `proto/`, for the reflection service.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
