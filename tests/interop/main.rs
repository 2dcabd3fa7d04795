//! Tests with the real Redisson: a JVM with Redisson clients and our coordinators share the locks
//! of a real redis-server. `make interop` builds the agent in the JVM and runs them.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

use lockkeeper_testkit::{client, coordinator, counters, redis_server, several, stores};

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
mod negotiated;
mod read_write;
mod semaphore;
