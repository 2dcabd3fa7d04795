//! The coordinator as a process. [`grpc`] is its API, [`admin`] the port beside it; [`fleet`] asks
//! the other coordinators; [`config`] has the settings, [`telemetry`] logs and traces. The wiring
//! connects the layers: [`run`].

pub mod admin;
mod admission;
mod bearer;
pub mod config;
pub mod fleet;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod grpc;
mod hosts;
mod layers;
pub mod pages;
pub mod probe;
mod process;
mod reload;
mod repeats;
mod secret_files;
mod security;
mod session_rights;
mod sizing;
pub mod telemetry;
mod unread;
mod wiring;

pub use layers::coordinator_config;
pub use wiring::*;
