//! Arguments of `latch`.

use clap::{Args, Subcommand};

use super::common::{CommonArgs, NameArgs, RequestArgs, WaitArgs, duration};

/// What to do with a latch.
#[derive(Debug, Subcommand)]
pub enum LatchCommand {
    /// Set the count of a latch, unless it has one.
    #[command(before_help = "\
Examples:
  lockkeeper latch set workers-ready 3
  lockkeeper latch set workers-ready 3 --ttl 1h")]
    Set(SetCountArgs),
    /// Lower the count; at 0 the latch opens.
    #[command(before_help = "\
Examples:
  lockkeeper latch count-down workers-ready --request-id $(uuidgen)")]
    CountDown(CountDownArgs),
    /// Wait until the latch is open.
    #[command(before_help = "\
Examples:
  lockkeeper latch wait workers-ready --wait 5m && ./start.sh
  lockkeeper latch wait workers-ready --must-exist")]
    Wait(WaitArgs<LatchArgs>),
    /// Show the count and the number of waiters.
    Describe(NameArgs),
    /// Delete a latch, which opens it.
    Delete(NameArgs),
}

/// Which latch.
#[derive(Args, Debug)]
pub struct LatchArgs {
    /// The latch's name.
    pub(crate) name: String,
    /// Exit with 1 if the latch is open when the wait begins. A latch that was never set is open.
    #[arg(long)]
    pub(crate) must_exist: bool,
}

/// See [`LatchCommand::Set`].
#[derive(Args, Debug)]
pub struct SetCountArgs {
    /// The latch's name.
    pub(crate) name: String,
    /// The number of count-downs that opens the latch.
    pub(crate) count: u32,
    /// Delete the latch, and so open it, after this time [default: never].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Option<prost_types::Duration>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`LatchCommand::CountDown`].
#[derive(Args, Debug)]
pub struct CountDownArgs {
    /// The latch's name.
    pub(crate) name: String,
    /// The number to subtract from the count.
    #[arg(long, default_value_t = 1)]
    pub(crate) by: u32,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
