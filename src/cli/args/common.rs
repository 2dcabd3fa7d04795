//! What many commands have in common.

use std::time::Duration;

use clap::{Args, ValueEnum};
use lockkeeper_api::pb::{LockMode, Note};

use super::ServerArgs;
use crate::{exit, output::Format};

/// Examples come before everything else, exit codes after it.
pub const TEMPLATE: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}

{all-args}{after-help}";

/// What every command has that is one call; also the layout of its help.
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, after_help = exit::HELP)]
pub struct CommonArgs {
    /// The coordinator, and the credentials for it.
    #[command(flatten)]
    pub server: ServerArgs,
    /// The output format.
    #[arg(long, value_enum, default_value_t)]
    pub output: Format,
}

/// A command that takes something, and waits for it.
#[derive(Args, Debug)]
pub struct WaitArgs<Hold: Args> {
    #[command(flatten)]
    pub(crate) hold: Hold,
    /// How long to wait [default: without limit].
    #[arg(long, short, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<prost_types::Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// A command that takes something if it is free.
#[derive(Args, Debug)]
pub struct TryArgs<Hold: Args> {
    #[command(flatten)]
    pub(crate) hold: Hold,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// How to hold what is taken.
#[derive(Args, Debug)]
pub(crate) struct GrantArgs {
    /// How long the grant lasts unless it is renewed [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) lease: Option<prost_types::Duration>,
    /// The owner of the grant; the same owner may acquire again [default: one that the coordinator
    /// generates].
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) owner: String,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// The minimum number of replicas that must acknowledge the grant; the coordinator may require
    /// more.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) min_replica_acks: u32,
}

/// What others read of a holder.
#[derive(Args, Clone, Debug)]
pub(crate) struct NoteArgs {
    /// Why the lock is held, for others to read: at most 256 bytes.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) reason: String,
    /// A label for others to read; may be repeated, at most 8 times.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
}

/// A request that may be repeated.
#[derive(Args, Debug)]
pub(crate) struct RequestArgs {
    /// An id that makes a retry safe: the retry gets the first answer.
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub(crate) request_id: String,
}

/// A name and nothing else.
#[derive(Args, Debug)]
pub struct NameArgs {
    /// The name.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// What every coordinator of the store is asked.
#[derive(Args, Debug)]
pub struct FleetArgs {
    /// Do not ask the other coordinators of the store.
    #[arg(long)]
    pub(crate) this_coordinator: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// The beginning of names, which every coordinator of the store is asked about.
#[derive(Args, Debug)]
pub struct FleetPrefixArgs {
    /// Only names that begin with this prefix.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}

/// What to watch.
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// One lock, wherever it is held [default: all names].
    #[arg(conflicts_with_all = ["prefix", "this_coordinator"])]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) names: FleetPrefixArgs,
}

/// How to hold a lock.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Mode {
    /// One owner at a time; the order of waiters is undefined.
    #[default]
    Exclusive,
    /// One owner at a time, in the order of requests, across coordinators and with Redisson's fair
    /// lock.
    Fair,
    /// Shared with other readers, excludes writers.
    Read,
    /// One owner at a time; an owner of the read lock must release it first.
    Write,
}

// === impl RequestArgs ===

impl RequestArgs {
    /// The id; a new one if none is given, so that an answer that is lost on the way can be asked
    /// for again.
    pub(crate) fn id_or_new(&self) -> String {
        match self.request_id.as_str() {
            "" => uuid::Uuid::new_v4().to_string(),
            id => id.to_owned(),
        }
    }
}

// === impl Mode ===

impl Mode {
    pub(crate) fn to_proto(self) -> LockMode {
        match self {
            Self::Exclusive => LockMode::Exclusive,
            Self::Fair => LockMode::Fair,
            Self::Read => LockMode::Read,
            Self::Write => LockMode::Write,
        }
    }
}

// === impl NoteArgs ===

impl NoteArgs {
    /// None if it says nothing.
    pub(crate) fn to_proto(&self) -> Option<Note> {
        let says_nothing = self.reason.is_empty() && self.labels.is_empty();
        (!says_nothing).then(|| Note {
            reason: self.reason.clone(),
            labels: self.labels.iter().cloned().collect(),
        })
    }
}

fn label(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The value of a flag such as `30s` or `1m 30s`; a bare number is in seconds, as for `flock`.
pub fn period(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().map(Duration::from_secs);
    seconds
        .or_else(|_| humantime::parse_duration(text))
        .map_err(|_| "must be a duration such as 30s, 1m 30s or 500ms, or a number of seconds")
}

/// The same, for a request.
pub fn duration(text: &str) -> Result<prost_types::Duration, &'static str> {
    period(text)?.try_into().map_err(|_| "is too long")
}
