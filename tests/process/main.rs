//! Tests that start real processes: redis-servers and the binary.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

#[path = "../support/redis_server.rs"]
mod redis_server;
#[path = "../support/tcp_proxy.rs"]
mod tcp_proxy;

mod cli;
mod fake;
mod redis_host;
mod redis_secured;
