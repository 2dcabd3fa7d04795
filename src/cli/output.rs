//! Data goes to stdout, messages to stderr; nothing else in the command line writes to either.

use std::{
    io::{self, Write as _},
    time::Duration,
};

use clap::ValueEnum;
use serde_json::Value;

use crate::grpc::pb::{Grant, Waiting};

/// The form of data on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// One line for people.
    #[default]
    Text,
    /// One JSON object on one line, as in the API.
    Json,
}

impl Format {
    /// Prints an answer. Fails if nobody reads it.
    pub(super) fn data(self, text: &str, json: &Value) -> io::Result<()> {
        match self {
            Self::Text => print(&format!("{text}\n")),
            Self::Json => print(&format!("{json}\n")),
        }
    }
}

/// Prints to stdout.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints a message to stderr. If that cannot be written there is nobody left to be told.
pub(super) fn say(message: &str) {
    let _ = writeln!(io::stderr().lock(), "lockkeeper: {message}");
}

/// A grant in words.
pub(super) fn grant(grant: &Grant) -> String {
    format!(
        "{} owner={} fencing_token={} hold_count={} lease={} valid_for={}",
        grant.name,
        grant.owner,
        grant.fencing_token,
        grant.hold_count,
        duration(grant.lease.as_ref()),
        duration(grant.valid_for.as_ref()),
    )
}

/// A wait in words.
pub(super) fn waiting(name: &str, waiting: &Waiting) -> String {
    format!(
        "waiting for {name} at position {}, {}",
        waiting.position,
        holder(waiting.holder_remaining_lease.as_ref())
    )
}

/// What is left of a holder's lease in words.
pub(super) fn holder(remaining: Option<&prost_types::Duration>) -> String {
    match remaining {
        Some(_) => format!("the holder's lease ends in {}", duration(remaining)),
        None => "the holder has no lease that ends".to_owned(),
    }
}

/// A duration in words, `?` if it is unset.
pub(super) fn duration(given: Option<&prost_types::Duration>) -> String {
    let Some(given) = given.and_then(|given| Duration::try_from(*given).ok()) else {
        return "?".to_owned();
    };
    let milliseconds = u64::try_from(given.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(milliseconds))
        .to_string()
        .replace(' ', "")
}
