//! The command line's words.

mod admin;
mod bench;
mod lock;
mod permits;
mod run;
mod serve;
mod server;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(super) use self::bench::Scenario;
use self::lock::MoreLocks;
pub(super) use self::server::ServerArgs;
pub use self::{
    admin::{ForceReleaseArgs, ListArgs, SessionsArgs, WatchArgs},
    bench::BenchArgs,
    lock::{
        AcquireAllArgs, AcquireArgs, CheckTokenArgs, DescribeArgs, ReleaseAllArgs, ReleaseArgs,
        RenewArgs, TryAcquireAllArgs, TryAcquireArgs,
    },
    permits::{
        AcquirePermitsArgs, AwaitLatchArgs, CountDownArgs, CounterArgs, LatchCommand,
        ReleasePermitsArgs, RenewPermitsArgs, SemaphoreCommand, SetCountArgs, SetPermitsArgs,
        TryAcquirePermitsArgs,
    },
    run::RunArgs,
    serve::ServeArgs,
};
use super::{exit, output::Format};
use crate::grpc::pb::LockMode;

/// Examples stand before everything else, exit codes after it.
const TEMPLATE: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}

{all-args}{after-help}";

/// The release, and the commit it was built from.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("LOCKKEEPER_COMMIT"),
    ")"
);

/// A lock coordinator over gRPC, and its client.
#[derive(Debug, Parser)]
#[command(version = VERSION, help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper serve
  lockkeeper run nightly-report -- ./report.sh
  lockkeeper run index --mode read -- ./search.sh
  lockkeeper run downloads --permits 1 -- ./fetch.sh
  lockkeeper acquire orders --wait 10s --output json
  lockkeeper describe orders", after_help = exit::HELP)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a coordinator.
    Serve(ServeArgs),
    /// Ask one.
    #[command(flatten)]
    Client(Box<ClientCommand>),
}

/// What to ask a coordinator.
#[derive(Debug, Subcommand)]
pub enum ClientCommand {
    /// Run a command while holding a lock.
    Run(RunArgs),
    /// Wait for a lock.
    Acquire(AcquireArgs),
    /// Take a lock if that can be done now.
    TryAcquire(TryAcquireArgs),
    /// Give a lock back.
    Release(ReleaseArgs),
    /// Extend the lease of a held lock.
    Renew(RenewArgs),
    /// Wait for several locks at once; all or none.
    AcquireAll(AcquireAllArgs),
    /// Take several locks if all can be had now, else none.
    TryAcquireAll(TryAcquireAllArgs),
    /// Give several locks back.
    ReleaseAll(ReleaseAllArgs),
    /// Take and give back permits of a semaphore.
    #[command(subcommand)]
    Semaphore(SemaphoreCommand),
    /// Count latches down, and wait for them.
    #[command(subcommand)]
    Latch(LatchCommand),
    /// Show who holds a lock and who waits for it.
    Describe(DescribeArgs),
    /// Tell whether a fencing token is that of the newest grant.
    CheckToken(CheckTokenArgs),
    /// List what is held or waited for, in the whole store.
    List(ListArgs),
    /// List the sessions of a coordinator.
    Sessions(SessionsArgs),
    /// Show what happens at a coordinator, as it happens.
    Watch(WatchArgs),
    /// Take a lock away from whoever holds it.
    ForceRelease(ForceReleaseArgs),
    /// Measure how fast a coordinator is.
    Bench(Box<BenchArgs>),
}

/// What every command that is one call has.
#[derive(Args, Debug)]
pub(super) struct CommonArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,
    /// The form of what is printed.
    #[arg(long, value_enum, default_value_t)]
    pub(super) output: Format,
}

/// How to hold a lock.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Mode {
    /// One owner at a time; who comes next is not defined.
    #[default]
    Exclusive,
    /// One owner at a time, in the order of asking, also across coordinators and with Redisson's fair lock.
    Fair,
    /// Together with other readers, but no writer.
    Read,
    /// Alone. Who reads already has to give that back first.
    Write,
}

// === impl Mode ===

impl Mode {
    pub(super) fn to_proto(self) -> LockMode {
        match self {
            Self::Exclusive => LockMode::Exclusive,
            Self::Fair => LockMode::Fair,
            Self::Read => LockMode::Read,
            Self::Write => LockMode::Write,
        }
    }
}
