//! The generated messages and services of `proto/`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    rustdoc::all,
    reason = "generated code"
)]

include!("generated/lockkeeper.v1.rs");

/// The descriptors of all of `proto/`, for the reflection service.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
