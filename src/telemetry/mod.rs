//! What the process says of itself: logs, and what it takes of the machine.

#[cfg(target_os = "linux")]
pub mod process;

use std::io::{self, IsTerminal as _};

use tracing_subscriber::{EnvFilter, filter::ParseError};

use crate::config::{Log, LogFormat};

/// Sends the process's logs to stderr. Fails if a filter cannot be understood; call it once.
pub fn init(log: &Log) -> Result<(), ParseError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => EnvFilter::try_new(directives)?,
        _ => EnvFilter::try_new(&log.level)?,
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    match log.format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}
