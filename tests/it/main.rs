//! Behaviour, in one process and under a paused clock. In reading order.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

mod support;

mod bad_input;
mod drain;
mod idempotency;
mod reentrant;
mod session;
mod waiting;
mod watchdog;
