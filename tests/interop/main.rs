//! Tests with the real Redisson: a JVM with Redisson clients and our coordinators share the locks of a real redis-server. `make interop` builds the
//! agent in the JVM and runs them.

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
#[path = "../it/support/counters.rs"]
#[allow(dead_code, reason = "the tests in one process use more of it")]
mod counters;
#[path = "../support/quorum.rs"]
#[allow(dead_code, reason = "the tests of processes use more of it")]
mod quorum_members;
#[path = "../support/redis_server.rs"]
#[allow(dead_code, reason = "the tests of processes use more of it")]
mod redis_server;
#[path = "../support/sentinels.rs"]
#[allow(dead_code, reason = "the tests of processes use more of it")]
mod sentinels;
#[path = "../support/stores.rs"]
#[allow(dead_code, reason = "the tests of processes use more of it")]
mod stores;

mod agent;
mod redisson;
mod world;

mod contention;
mod permits;
mod scenario;

mod kinds;

mod deployments;
mod exclusive;
mod fair;
mod fair_queue;
mod latch;
mod multi;
mod read_write;
mod semaphore;
