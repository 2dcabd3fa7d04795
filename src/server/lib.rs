//! The coordinator as a process. [`grpc`] is its API, [`admin`] the port beside it; [`config`] has
//! the settings, [`telemetry`] logs and traces. The wiring connects the layers: [`run`].

pub mod admin;
mod admission;
pub mod config;
pub mod grpc;
pub mod hosts;
pub mod probe;
mod process;
mod secret_files;
mod security;
mod sizing;
pub mod telemetry;
mod wiring;

pub use wiring::*;
