//! Tests that start the binary.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

mod cli;
mod fake;
