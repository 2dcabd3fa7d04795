//! What breaks in a deployment while 32 contenders take locks: one test for each fault at each
//! store. The rows are those of `docs/robustness/rows.md`.
//!
//! `make test` runs each once and short; `make faults` for longer (`FAULT_SECONDS`).

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

use lockkeeper_testkit::{
    checker, clock, cluster, coordinator, heartbeat, history, line, redis_server, redisson,
    sentinels, tcp_proxy, time, tls, wire,
};

mod contender;
mod ends;
mod fault;
mod judgement;
mod kinds;
mod link;
mod row;
mod rows;
mod soak;
mod store;
mod witness;
mod world;
