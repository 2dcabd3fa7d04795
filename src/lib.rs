//! A lock coordinator over gRPC. See ARCHITECTURE.md for the map.

pub mod cli;
pub mod config;
pub mod grpc;
pub mod host;
pub mod script;
pub mod server;
pub mod shutdown;
pub mod telemetry;
