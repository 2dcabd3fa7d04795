//! Tests that start real processes: redis-servers and the binary.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

use lockkeeper_testkit::{
    client, cluster, coordinator, counters, fake_redis, heartbeat, modes, quorum as quorum_members,
    redis_server, refusing_port, sentinels, several, stores, tcp_proxy, tls,
};

mod hosts;
mod prelude;
mod redisson_client;
mod steps;

mod abuse;
mod bench;
mod cli;
mod cli_kinds;
mod cli_restarts;
mod cluster_failover;
mod cluster_host;
mod cluster_locks;
mod fake;
mod golden;
mod redis_channels;
mod redis_host;
mod redis_links;
mod redis_secured;
mod sentinel;
mod sentinel_host;
mod server_checks;

mod service_manager;
mod smoke;

mod mission;
mod on_every_store;
mod redisson_layout;

mod coordinator_frozen;
mod drain;
mod elections;
mod fair;
mod fleet;
mod grpc_web;
mod http_json;
mod installed;
mod key_prefix;
mod mixed_versions;
mod multi;
mod permissions;
mod quorum;
mod quorum_contention;
mod quorum_sentinels;
mod quorum_tokens;
mod readers;
mod replicas;
mod rolling_restart;
mod run_processes;
mod run_terminal;
mod rust_client;
mod security;
mod semaphores;
mod store_forgets;
mod store_frozen;
mod store_full;
mod store_readiness;
mod telemetry;
mod transfers;
mod two_coordinators;
mod vanished_clients;
mod wake_ups;
mod why;
