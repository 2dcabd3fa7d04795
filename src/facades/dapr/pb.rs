//! The generated messages and services of `proto/dapr`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    rustdoc::all,
    reason = "generated code"
)]

pub mod v1 {
    include!("../generated/dapr.proto.runtime.v1.rs");
}
