//! Tests that start real processes.

#[path = "../support/redis_server.rs"]
mod redis_server;
#[path = "../support/tcp_proxy.rs"]
mod tcp_proxy;

mod redis_host;
mod redis_secured;
