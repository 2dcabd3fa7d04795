//! The words of `semaphore` and `latch`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{CommonArgs, TEMPLATE};
use crate::exit;

/// What to do with a semaphore.
#[derive(Debug, Subcommand)]
pub enum SemaphoreCommand {
    /// Say how many permits a semaphore has; 0 removes it.
    Set(SetPermitsArgs),
    /// Wait for permits.
    Acquire(AcquirePermitsArgs),
    /// Take permits if as many are free now.
    TryAcquire(TryAcquirePermitsArgs),
    /// Give permits back.
    Release(ReleasePermitsArgs),
    /// Extend the leases of held permits.
    Renew(RenewPermitsArgs),
    /// Show how many permits there are, who holds them and who waits.
    Describe(CounterArgs),
}

/// What to do with a latch.
#[derive(Debug, Subcommand)]
pub enum LatchCommand {
    /// Give a latch its count, unless it has one.
    Set(SetCountArgs),
    /// Lower the count; at 0 the latch opens.
    CountDown(CountDownArgs),
    /// Wait until the latch is open.
    Wait(AwaitLatchArgs),
    /// Show the count and how many wait.
    Describe(CounterArgs),
    /// Delete a latch, which opens it.
    Delete(CounterArgs),
}

/// See [`SemaphoreCommand::Set`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper semaphore set downloads 4", after_help = exit::HELP)]
pub struct SetPermitsArgs {
    /// The semaphore's name.
    pub(crate) name: String,
    /// How many permits it is to have in all.
    pub(crate) permits: u32,
    /// Leave a semaphore that there is already as it is.
    #[arg(long)]
    pub(crate) only_if_absent: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`SemaphoreCommand::Acquire`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper semaphore acquire downloads --wait 10s
  lockkeeper semaphore acquire downloads --permits 2 --owner job-17 --lease 5m", after_help = exit::HELP)]
pub struct AcquirePermitsArgs {
    #[command(flatten)]
    pub(crate) hold: HoldPermitsArgs,
    /// How long to wait [default: without limit].
    #[arg(long, short, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`SemaphoreCommand::TryAcquire`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper semaphore try-acquire downloads --output json", after_help = exit::HELP)]
pub struct TryAcquirePermitsArgs {
    #[command(flatten)]
    pub(crate) hold: HoldPermitsArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// How to hold permits.
#[derive(Args, Debug)]
pub(crate) struct HoldPermitsArgs {
    /// The semaphore's name.
    pub(crate) name: String,
    /// How many to take at once.
    #[arg(long, short, default_value_t = 1)]
    pub(crate) permits: u32,
    /// How long the store keeps them unless they are renewed [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) lease: Option<Duration>,
    /// Who holds them; the same owner may take more [default: made by the coordinator].
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// Makes a repeat safe: it gets the first answer.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// Replicas of the store that must know of the grant before it counts; the coordinator may ask
    /// for more.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) min_replica_acks: u32,
}

/// See [`SemaphoreCommand::Release`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper semaphore release downloads --owner job-17", after_help = exit::HELP)]
pub struct ReleasePermitsArgs {
    /// The semaphore's name.
    pub(crate) name: String,
    /// The owner, as the grant named it.
    #[arg(long)]
    pub(crate) owner: String,
    /// One permit to give back; may be repeated [default: all that the owner holds].
    #[arg(long, value_name = "ID")]
    pub(crate) permit: Vec<String>,
    /// Makes a repeat safe: it gets the first answer.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`SemaphoreCommand::Renew`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper semaphore renew downloads --owner job-17 --permit 5feceb66ffc86f38d952786c6d696c79", after_help = exit::HELP)]
pub struct RenewPermitsArgs {
    /// The semaphore's name.
    pub(crate) name: String,
    /// The owner, as the grant named it.
    #[arg(long)]
    pub(crate) owner: String,
    /// A permit to renew; may be repeated.
    #[arg(long, value_name = "ID", required = true)]
    pub(crate) permit: Vec<String>,
    /// The lease to count from now; never shortens it [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) lease: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// A name and nothing else.
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, after_help = exit::HELP)]
pub struct CounterArgs {
    /// The name.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`LatchCommand::Set`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper latch set workers-ready 3
  lockkeeper latch set workers-ready 3 --ttl 1h", after_help = exit::HELP)]
pub struct SetCountArgs {
    /// The latch's name.
    pub(crate) name: String,
    /// How often it is to be counted down before it opens.
    pub(crate) count: u32,
    /// Forget the latch, and so open it, after so long [default: never].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) ttl: Option<Duration>,
    /// Makes a repeat safe: it gets the first answer.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`LatchCommand::CountDown`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper latch count-down workers-ready --request-id $(uuidgen)", after_help = exit::HELP)]
pub struct CountDownArgs {
    /// The latch's name.
    pub(crate) name: String,
    /// By how many.
    #[arg(long, default_value_t = 1)]
    pub(crate) by: u32,
    /// Makes a repeat safe: it gets the first answer.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`LatchCommand::Wait`].
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper latch wait workers-ready --wait 5m && ./start.sh", after_help = exit::HELP)]
pub struct AwaitLatchArgs {
    /// The latch's name.
    pub(crate) name: String,
    /// How long to wait [default: without limit].
    #[arg(long, short, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
