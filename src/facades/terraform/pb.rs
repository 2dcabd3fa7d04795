//! The generated messages and services of `proto/terraform`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::pedantic,
    rustdoc::all,
    reason = "generated code"
)]

pub mod v1 {
    include!("../generated/lockkeeper.facades.terraform.v1.rs");
}
