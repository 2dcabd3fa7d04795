//! The commands that ask a coordinator.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};

use super::{
    common::{
        CommonArgs, FleetArgs, FleetPrefixArgs, NameArgs, TEMPLATE, TryArgs, WaitArgs, WatchArgs,
        duration, period,
    },
    context::ContextCommand,
    election::{ElectArgs, ElectionCommand},
    latch::LatchCommand,
    lock::{CheckTokenArgs, HoldArgs, LockArgs, ReleaseArgs, RenewArgs},
    multi::{HoldAllArgs, ReleaseAllArgs},
    run::RunArgs,
    semaphore::SemaphoreCommand,
    server::ServerArgs,
    yields::YieldArgs,
};
use crate::exit;

/// What to ask a coordinator.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Run a command while holding a lock.
    Run(RunArgs),
    /// Run a command while leading an election.
    Elect(ElectArgs),
    /// Wait for a lock.
    #[command(before_help = "\
Examples:
  lockkeeper acquire orders --wait 10s
  lockkeeper acquire orders --mode fair --wait 1m
  lockkeeper acquire orders --lease 5m --owner job-17 --request-id $(uuidgen)")]
    Acquire(WaitArgs<HoldArgs>),
    /// Acquire a lock if it is free now.
    #[command(before_help = "\
Examples:
  lockkeeper try-acquire orders --output json
  lockkeeper try-acquire catalogue --mode read --owner job-17")]
    TryAcquire(TryArgs<HoldArgs>),
    /// Wait until a lock is free, without acquiring it.
    #[command(before_help = "\
Examples:
  lockkeeper wait migration --wait 10m && ./start.sh
  lockkeeper wait orders --wait 0s && echo free")]
    Wait(WaitArgs<LockArgs>),
    /// Release a lock.
    #[command(before_help = "\
Examples:
  lockkeeper release orders --owner job-17
  lockkeeper release catalogue --mode read --owner job-17")]
    Release(ReleaseArgs),
    /// Extend the lease of a held lock.
    #[command(before_help = "\
Examples:
  lockkeeper renew orders --owner job-17 --lease 5m
  lockkeeper renew catalogue --mode read --owner job-17")]
    Renew(RenewArgs),
    /// Wait for several locks at once; all or none.
    #[command(before_help = "\
Examples:
  lockkeeper acquire-all orders billing --wait 10s
  lockkeeper acquire-all index --mode write --read prices --owner job-17")]
    AcquireAll(WaitArgs<HoldAllArgs>),
    /// Acquire several locks if all are free now, else none.
    #[command(before_help = "\
Examples:
  lockkeeper try-acquire-all orders billing --output json")]
    TryAcquireAll(TryArgs<HoldAllArgs>),
    /// Release several locks.
    #[command(before_help = "\
Examples:
  lockkeeper release-all orders billing --owner job-17
  lockkeeper release-all index --mode write --read prices --owner job-17")]
    ReleaseAll(ReleaseAllArgs),
    /// Acquire and release permits of a semaphore.
    #[command(subcommand)]
    Semaphore(SemaphoreCommand),
    /// Count latches down, and wait for them.
    #[command(subcommand)]
    Latch(LatchCommand),
    /// See who leads an election.
    #[command(subcommand)]
    Election(ElectionCommand),
    /// Show the holders and waiters of a lock.
    #[command(before_help = "\
Examples:
  lockkeeper describe orders
  lockkeeper describe orders --output json | jq -r '.waiters[].owner'")]
    Describe(NameArgs),
    /// Explain why callers wait for a lock: its holders, what these wait for, and so on.
    #[command(before_help = "\
Examples:
  lockkeeper why orders
  lockkeeper why orders --output json | jq .deadlocks")]
    Why(NameArgs),
    /// Check whether a fencing token is that of the newest grant.
    #[command(before_help = "\
Examples:
  lockkeeper check-token orders 1700000000000000 || exit 1")]
    CheckToken(CheckTokenArgs),
    /// Ask the holders of a lock to release it.
    #[command(before_help = "\
Examples:
  lockkeeper yield nightly-report --reason 'release 1.4 waits' --within 5m
  lockkeeper yield orders --reason 'host 7 goes down' --preempt")]
    Yield(YieldArgs),
    /// List all names in the store that are held or waited for.
    #[command(before_help = "\
Examples:
  lockkeeper list
  lockkeeper list --sort waiters
  lockkeeper list --held-longer-than 1h --sort held
  lockkeeper list --prefix orders: --output json | jq -r .name")]
    List(ListArgs),
    /// Show the most contended names of a coordinator.
    #[command(before_help = "\
Examples:
  lockkeeper top
  lockkeeper top --by holder --prefix orders:
  watch lockkeeper top")]
    Top(TopArgs),
    /// List the coordinators of the store.
    #[command(before_help = "\
Examples:
  lockkeeper coordinators")]
    Coordinators(FleetArgs),
    /// List the sessions of all coordinators.
    #[command(before_help = "\
Examples:
  lockkeeper sessions
  lockkeeper sessions --this-coordinator")]
    Sessions(FleetArgs),
    /// Show the events of a lock, or of all coordinators, as they happen.
    #[command(before_help = "\
Examples:
  lockkeeper watch orders
  lockkeeper watch --prefix orders:")]
    Watch(WatchArgs),
    /// Take a lock away from its holders.
    #[command(before_help = "\
Examples:
  lockkeeper force-release orders --reason 'host 7 has burned down'")]
    ForceRelease(ForceReleaseArgs),
    /// End sessions of a coordinator and release what they hold.
    #[command(before_help = "\
Examples:
  lockkeeper end-session --digest 0123456789abcdef --reason 'its host is gone'
  lockkeeper end-session --identity spiffe://prod/orders --reason 'key stolen' --yes")]
    EndSession(EndSessionArgs),
    /// Check that a coordinator serves; needs no bearer token.
    #[command(before_help = "\
Examples:
  lockkeeper health
  lockkeeper health --server https://locks.example.com:7625",
        help_template = TEMPLATE, after_help = exit::HELP)]
    Health(ServerArgs),
    /// Name coordinators and their credentials, and choose one.
    #[command(subcommand)]
    Context(ContextCommand),
}

/// See [`ClientCommand::List`].
#[derive(Args, Debug)]
pub struct ListArgs {
    /// The order of the list [default: by name; with --output json, that of the coordinator].
    #[arg(long, value_enum)]
    pub(crate) sort: Option<Sort>,
    /// Only locks that a holder has held for longer than this. Known only for sessions of the
    /// coordinators that answer.
    #[arg(long, value_name = "DURATION", value_parser = period)]
    pub(crate) held_longer_than: Option<Duration>,
    #[command(flatten)]
    pub(crate) names: FleetPrefixArgs,
}

/// The order of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// By name.
    Name,
    /// The most waiters first.
    Waiters,
    /// The longest remaining lease first.
    Lease,
    /// The longest held first.
    Held,
}

/// See [`ClientCommand::Top`].
#[derive(Args, Debug)]
pub struct TopArgs {
    /// What each row stands for.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) by: By,
    /// Show at most this many rows.
    #[arg(long, short, value_name = "NUMBER", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Only names that begin with this prefix.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// What a row of contention is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// A name.
    #[default]
    Name,
    /// All names with the same text before their first `:`, `/` or `.`.
    Prefix,
    /// The client name of the holders.
    Holder,
}

/// See [`ClientCommand::ForceRelease`].
#[derive(Args, Debug)]
pub struct ForceReleaseArgs {
    /// The lock's name.
    pub(crate) name: String,
    /// The reason, sent to the holders and written to the audit log.
    #[arg(long)]
    pub(crate) reason: String,
    /// The longest time to keep the lock closed while its holders stop; 0: open it at once.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "15s")]
    pub(crate) grace_period: prost_types::Duration,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::EndSession`].
#[derive(Args, Debug)]
pub struct EndSessionArgs {
    #[command(flatten)]
    pub(crate) sessions: SessionsArgs,
    /// The reason, sent to the clients and written to the audit log.
    #[arg(long)]
    pub(crate) reason: String,
    /// Do not ask for confirmation.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}

/// Which sessions end.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct SessionsArgs {
    /// The digest of one session, as `lockkeeper sessions` shows it.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) digest: Option<String>,
    /// The identity whose sessions end; `anonymous` for those without one.
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) identity: Option<String>,
}
