//! Data goes to stdout, messages to stderr; nothing else in the command line writes to either.

pub(super) mod admin;
pub(super) mod permits;

use std::{
    io::{self, Write as _},
    time::Duration,
};

use clap::ValueEnum;
use lockkeeper_api::pb::{DescribeResponse, Grant, Holder, LockMode, Waiter, Waiting};
use serde_json::Value;

/// The form of data on stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object on one line, as in the API.
    Json,
}

impl Format {
    /// Prints an answer. Fails if nobody reads it.
    pub fn data(self, text: &str, json: &Value) -> io::Result<()> {
        match self {
            Self::Text => print(&format!("{}\n", printable(text))),
            Self::Json => print(&format!("{json}\n")),
        }
    }
}

/// What others have named themselves must not steer the terminal.
fn printable(text: &str) -> String {
    let steers = |letter: char| letter.is_control() && letter != '\n';
    text.replace(steers, "\u{fffd}")
}

/// Prints to stdout.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints a message to stderr. If that cannot be written there is nobody left to be told.
pub fn say(message: &str) {
    let _ = writeln!(io::stderr().lock(), "lockkeeper: {message}");
}

/// A grant in words.
pub(super) fn grant(grant: &Grant) -> String {
    format!(
        "{} mode={} owner={} fencing_token={} hold_count={} lease={} valid_for={}",
        grant.name,
        mode(grant.mode()),
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
        // It has none that ends, or nobody holds the lock and others come first.
        None => "when that ends is not known".to_owned(),
    }
}

/// A lock in words: its state, then a line for each holder, then one for each waiter.
pub(super) fn description(answer: &DescribeResponse) -> String {
    let (name, token) = (&answer.name, answer.last_fencing_token);
    let mut lines = vec![if answer.holders.is_empty() {
        format!("free {name} last_fencing_token={token}")
    } else {
        format!(
            "held {name} mode={} holders={} last_fencing_token={token} remaining_lease={}",
            mode(answer.mode()),
            answer.holder_count,
            duration(answer.remaining_lease.as_ref())
        )
    }];
    lines.extend(answer.holders.iter().map(holder_line));
    lines.extend(more(answer.holder_count, answer.holders.len(), "holders"));
    lines.extend(answer.waiters.iter().map(waiter_line));
    lines.extend(more(answer.waiter_count, answer.waiters.len(), "waiters"));
    lines.join("\n")
}

fn holder_line(holder: &Holder) -> String {
    format!(
        "  holder owner={} mode={} hold_count={} remaining_lease={} session_digest={} client_name={}",
        holder.owner,
        mode(holder.mode()),
        holder.hold_count,
        duration(holder.remaining_lease.as_ref()),
        holder.session_digest,
        holder.client_name
    )
}

fn waiter_line(waiter: &Waiter) -> String {
    format!(
        "  waiter position={} owner={} mode={} waiting_for={} session_digest={} client_name={}",
        waiter.position,
        waiter.owner,
        mode(waiter.mode()),
        duration(waiter.waiting_for.as_ref()),
        waiter.session_digest,
        waiter.client_name
    )
}

fn more(counted: u32, shown: usize, what: &str) -> Option<String> {
    let more = (counted as usize)
        .checked_sub(shown)
        .filter(|more| *more > 0)?;
    Some(format!("  and {more} more {what}"))
}

/// A mode as the flags have it.
fn mode(mode: LockMode) -> &'static str {
    match mode {
        LockMode::Unspecified | LockMode::Exclusive => "exclusive",
        LockMode::Fair => "fair",
        LockMode::Read => "read",
        LockMode::Write => "write",
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
