//! What the tests of several tiers share: Redis servers in every topology, coordinators as
//! processes, proxies, and a client of the API that does nothing by itself. Nothing here is
//! shipped.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::len_without_is_empty,
    clippy::return_self_not_must_use,
    reason = "helpers of tests"
)]

pub mod calls;
pub mod checker;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod coordinator;
pub mod counters;
mod expect;
pub mod fake_redis;
pub mod frames;
pub mod heartbeat;
pub mod history;
pub mod line;
pub mod modes;
pub mod pace;
pub mod prelude;
pub mod quorum;
pub mod redis_server;
pub mod redisson;
pub mod refusing_port;
pub mod sentinels;
pub mod several;
pub mod stores;
pub mod tcp_proxy;
pub mod time;
pub mod tls;
pub mod wire;
