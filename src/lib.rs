//! A lock coordinator over gRPC that shares its locks with Redisson. ARCHITECTURE.md is the map; in reading order from the surface down:
//!
//! - [`server`] wires the layers together; [`client`] is a client of the public API, [`cli`] the command line made of it.
//! - [`grpc`]: proto in, proto out.
//! - [`coordinator`]: sessions, grants, waits, the watchdog.
//! - [`script`]: the typed face of the Lua scripts in `lua/`.
//! - [`host`]: where scripts run.
//!
//! [`admin`] is the port beside it: pages and probes. [`access`] knows who may do what; [`busy_poll`], [`config`], [`telemetry`], [`measure`], [`notify`], [`spans`] and [`shutdown`] serve them all.

pub mod access;
pub mod admin;
pub mod busy_poll;
pub mod cli;
pub mod client;
pub mod config;
pub mod coordinator;
mod files;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod grpc;
pub mod host;
pub mod measure;
pub mod notify;
pub mod script;
mod security;
pub mod server;
pub mod shutdown;
pub mod spans;
pub mod telemetry;
pub mod threads;
