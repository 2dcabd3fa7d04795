//! Scripts and hosts, on every host that there is; then behaviour, in one process and under a
//! paused clock. In reading order.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

use lockkeeper_testkit::{cluster, redis_server, sentinels};

mod support;

mod host;
mod scripts;

mod access;
mod admin;
mod away;
mod bad_input;
mod client;
mod connection_age;
mod drain;
mod election;
mod ended;
mod facades;
mod fair;
mod fleet;
mod hand_over;
mod idempotency;
mod latch;
mod lock_watch;
mod moved;
mod multi;
mod notes;
mod permits;
mod permits_ended;
mod permits_in_sessions;
mod quorum;
mod quorum_churn;
mod read_leases;
mod read_write;
mod redisson;
mod reentrant;
mod replicas;
mod resume_tokens;
mod resume_turns;
mod resumed;
mod session;
mod shown;
mod stays_closed;
mod tickets;
mod waiting;
mod watchdog;
mod why;
mod yields;
