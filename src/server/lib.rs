//! The coordinator as a process. [`grpc`] is its surface, [`admin`] the port beside it; [`config`]
//! has the settings, [`telemetry`] logs and traces. The wiring puts the layers together: [`run`].

pub mod admin;
pub mod config;
pub mod grpc;
mod process;
mod security;
pub mod telemetry;
mod wiring;

pub use wiring::*;
