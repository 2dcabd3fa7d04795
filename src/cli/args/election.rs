//! Arguments of `elect` and `election`.

use clap::{Args, Subcommand};

use super::{
    common::{CommonArgs, Mode, NameArgs, TEMPLATE},
    multi::MoreLocks,
    run::{HowArgs, RunArgs},
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
  lockkeeper elect scheduler --value b --no-wait -E 0 -- ./scheduler.sh",
  after_help = format!("{ELECT_NOTES}\n{}", exit::RUN_HELP))]
pub struct ElectArgs {
    /// The name of the election.
    pub(crate) name: String,
    /// What observers read of the leader, such as its address: at most 1024 bytes.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) value: String,
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
    /// Show every term and value as they come.
    #[command(before_help = "\
Examples:
  lockkeeper election watch scheduler
  lockkeeper election watch scheduler --output json | jq --unbuffered .leader.value")]
    Watch(WatchElectionArgs),
}

/// See [`ElectionCommand::Watch`].
#[derive(Args, Debug)]
pub struct WatchElectionArgs {
    /// The name of the election.
    pub(crate) name: String,
    /// The last revision that was seen [default: begin with the present leader].
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
            lock_delay: None,
            value: Some(args.value),
            how: args.how,
        }
    }
}
