//! What breaks in a deployment while 32 contenders take locks: one test for each fault at each store. The rows are those of `docs/robustness.md`.
//!
//! `make test` runs each once and short; `make faults` for longer (`FAULT_SECONDS`).

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

#[path = "../it/support/client.rs"]
#[allow(dead_code, reason = "the tests in one process use more of it")]
mod client;
#[path = "../support/cluster.rs"]
#[allow(dead_code, reason = "the tests of processes use more of it")]
mod cluster;
#[path = "../support/coordinator.rs"]
#[allow(dead_code, reason = "the tests of processes use more of it")]
mod coordinator;
#[path = "../support/heartbeat.rs"]
mod heartbeat;
#[path = "../support/redis_server.rs"]
#[allow(dead_code, reason = "the tests of processes use more of it")]
mod redis_server;
#[path = "../support/sentinels.rs"]
#[allow(dead_code, reason = "the tests of processes use more of it")]
mod sentinels;
#[path = "../support/tcp_proxy.rs"]
#[allow(dead_code, reason = "the tests of processes use more of it")]
mod tcp_proxy;

mod checker;
mod history;
mod witness;

mod contender;
mod faults;
mod link;
mod row;
mod world;

mod clustered;
mod quorum;
mod sentinel;
mod single;
