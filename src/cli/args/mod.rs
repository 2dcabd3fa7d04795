//! The command line's words.

mod admin;
mod lock;
mod permits;
mod run;
mod server;

use clap::{Args, Subcommand, ValueEnum};
use lockkeeper_api::pb::LockMode;

use self::lock::MoreLocks;
pub use self::{
    admin::{ForceReleaseArgs, ListArgs, SessionsArgs, WatchArgs},
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
    server::ServerArgs,
};
use super::{exit, failure::Failure, output::Format};

/// Examples stand before everything else, exit codes after it.
pub const TEMPLATE: &str = "\
{about-with-newline}
{before-help}{usage-heading} {usage}

{all-args}{after-help}";

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
}

/// What every command that is one call has.
#[derive(Args, Debug)]
pub struct CommonArgs {
    /// The coordinator, and the credentials for it.
    #[command(flatten)]
    pub server: ServerArgs,
    /// The form of what is printed.
    #[arg(long, value_enum, default_value_t)]
    pub output: Format,
}

/// How to hold a lock.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum Mode {
    /// One owner at a time; who comes next is not defined.
    #[default]
    Exclusive,
    /// One owner at a time, in the order of asking, also across coordinators and with Redisson's
    /// fair lock.
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

/// For a flag's value, which the protocol may not be able to carry.
pub fn to_proto(duration: std::time::Duration) -> Result<prost_types::Duration, Failure> {
    prost_types::Duration::try_from(duration)
        .map_err(|_| Failure::local(exit::USAGE, "a duration is too long"))
}
