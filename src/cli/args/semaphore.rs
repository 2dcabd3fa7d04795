//! Arguments of `semaphore`.

use clap::{Args, Subcommand};

use super::common::{CommonArgs, GrantArgs, NameArgs, RequestArgs, TryArgs, WaitArgs, duration};

/// What to do with a semaphore.
#[derive(Debug, Subcommand)]
pub enum SemaphoreCommand {
    /// Set how many permits a semaphore has; 0 removes it.
    #[command(before_help = "\
Examples:
  lockkeeper semaphore set downloads 4")]
    Set(SetPermitsArgs),
    /// Wait for permits.
    #[command(before_help = "\
Examples:
  lockkeeper semaphore acquire downloads --wait 10s
  lockkeeper semaphore acquire downloads --permits 2 --owner job-17 --lease 5m")]
    Acquire(WaitArgs<HoldPermitsArgs>),
    /// Acquire permits if enough are available now.
    #[command(before_help = "\
Examples:
  lockkeeper semaphore try-acquire downloads --output json")]
    TryAcquire(TryArgs<HoldPermitsArgs>),
    /// Release permits.
    #[command(before_help = "\
Examples:
  lockkeeper semaphore release downloads --owner job-17")]
    Release(ReleasePermitsArgs),
    /// Extend the leases of held permits.
    #[command(before_help = "\
Examples:
  lockkeeper semaphore renew downloads --owner job-17 --permit 5feceb66ffc86f38d952786c6d696c79")]
    Renew(RenewPermitsArgs),
    /// Show how many permits there are, their holders and waiters.
    Describe(NameArgs),
}

/// See [`SemaphoreCommand::Set`].
#[derive(Args, Debug)]
pub struct SetPermitsArgs {
    /// The semaphore's name.
    pub(crate) name: String,
    /// The number of permits, held ones included.
    pub(crate) permits: u32,
    /// Leave an existing semaphore as it is.
    #[arg(long)]
    pub(crate) only_if_absent: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// How to hold permits.
#[derive(Args, Debug)]
pub struct HoldPermitsArgs {
    /// The semaphore's name.
    pub(crate) name: String,
    /// How many to acquire at once.
    #[arg(long, short, default_value_t = 1)]
    pub(crate) permits: u32,
    #[command(flatten)]
    pub(crate) grant: GrantArgs,
}

/// See [`SemaphoreCommand::Release`].
#[derive(Args, Debug)]
pub struct ReleasePermitsArgs {
    /// The semaphore's name.
    pub(crate) name: String,
    /// The owner, as in the grant.
    #[arg(long)]
    pub(crate) owner: String,
    /// A permit to release; may be repeated [default: all permits of the owner].
    #[arg(long, value_name = "ID")]
    pub(crate) permit: Vec<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`SemaphoreCommand::Renew`].
#[derive(Args, Debug)]
pub struct RenewPermitsArgs {
    /// The semaphore's name.
    pub(crate) name: String,
    /// The owner, as in the grant.
    #[arg(long)]
    pub(crate) owner: String,
    /// A permit to renew; may be repeated.
    #[arg(long, value_name = "ID", required = true)]
    pub(crate) permit: Vec<String>,
    /// The lease, counted from now; never shortens it [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) lease: Option<prost_types::Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
