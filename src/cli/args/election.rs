//! Arguments of `elect` and `election`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{
    common::{CommonArgs, Mode, NameArgs, TEMPLATE, duration, period},
    multi::MoreLocks,
    run::{HowArgs, OWNER, RunArgs},
};
use crate::exit;

const ELECT_NOTES: &str = "\
CMD runs while this process leads the election NAME, as `lockkeeper run NAME --mode fair` runs it
under a lock: an election is the fair lock of the same name. Candidates lead in order of arrival.
The environment of CMD also has LOCKKEEPER_TERM, which is the fencing token.
";

/// See [`ClientCommand::Elect`](super::ClientCommand::Elect).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper elect scheduler --value \"$(hostname):8080\" -- ./scheduler.sh
  lockkeeper elect scheduler --value b --no-wait -E 0 -- ./scheduler.sh
  lockkeeper elect scheduler --value big:8080 --preferred -- ./scheduler.sh",
  after_help = format!("{ELECT_NOTES}\n{}", exit::RUN_HELP))]
pub struct ElectArgs {
    /// The name of the election.
    pub(crate) name: String,
    /// The value that observers see, such as the leader's address: at most 1024 bytes.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) value: String,
    /// The name of this candidate, for `lockkeeper election transfer --to`.
    #[arg(long, value_name = "NAME", default_value = OWNER)]
    pub(crate) candidate: String,
    /// Go ahead of the waiting candidates, and ask a leader that is not preferred to resign. For
    /// one candidate of an election.
    #[arg(long)]
    pub(crate) preferred: bool,
    /// How long nobody leads if the leadership is lost without a resignation, for example by a
    /// crash, so that work that CMD has started can finish.
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub(crate) lock_delay: Option<Duration>,
    #[command(flatten)]
    pub(crate) how: HowArgs,
}

/// What to ask of an election.
#[derive(Debug, Subcommand)]
pub enum ElectionCommand {
    /// Show who leads.
    #[command(before_help = "\
Examples:
  lockkeeper election leader scheduler --output json | jq -r .leader.value")]
    Leader(NameArgs),
    /// Show every term and value as they are proclaimed.
    #[command(before_help = "\
Examples:
  lockkeeper election watch scheduler
  lockkeeper election watch scheduler --output json | jq --unbuffered .leader.value")]
    Watch(WatchElectionArgs),
    /// Ask the leader to resign in favour of a candidate.
    #[command(before_help = "\
Examples:
  lockkeeper election transfer scheduler --to node-2
  lockkeeper election transfer scheduler --within 1m --preempt")]
    Transfer(TransferArgs),
}

/// See [`ElectionCommand::Transfer`].
#[derive(Args, Debug)]
pub struct TransferArgs {
    /// The name of the election.
    pub(crate) name: String,
    /// The candidate that leads next: its --candidate, or its `owner` or `session_digest` in
    /// `describe` [default: the first in line].
    #[arg(
        long,
        value_name = "CANDIDATE",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) to: String,
    /// The reason, sent to the leader.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// How long the request stays open, at most 1h.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub(crate) within: prost_types::Duration,
    /// Take the leadership from a leader that still leads at the end of that time; the leader stops
    /// before another one leads.
    #[arg(long)]
    pub(crate) preempt: bool,
    /// The longest time without a leader while the former one stops [default: its lease].
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "preempt")]
    pub(crate) grace_period: Option<prost_types::Duration>,
    /// The caller's name, for the leader; a coordinator that authenticates callers sends the
    /// identity.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) client_name: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ElectionCommand::Watch`].
#[derive(Args, Debug)]
pub struct WatchElectionArgs {
    /// The name of the election.
    pub(crate) name: String,
    /// Begin after this revision [default: begin with the current leader].
    #[arg(
        long,
        value_name = "REVISION",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) after: u64,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

// === impl RunArgs ===

impl From<ElectArgs> for RunArgs {
    fn from(args: ElectArgs) -> Self {
        Self {
            name: args.name,
            permits: None,
            mode: Mode::Fair,
            also: Vec::new(),
            more: MoreLocks::default(),
            hold_at_least: None,
            lock_delay: args.lock_delay,
            owner: args.candidate,
            value: Some(args.value),
            preferred: args.preferred,
            how: args.how,
        }
    }
}
