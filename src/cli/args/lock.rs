//! Arguments of commands about one lock.

use clap::Args;

use super::common::{CommonArgs, GrantArgs, Mode, NoteArgs, RequestArgs, duration};

/// One lock.
#[derive(Args, Debug)]
pub struct LockArgs {
    /// The lock's name.
    pub(crate) name: String,
}

/// How to hold one lock.
#[derive(Args, Debug)]
pub struct HoldArgs {
    /// The lock's name.
    pub(crate) name: String,
    /// The mode in which to hold the lock.
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) mode: Mode,
    /// The minimum time for which the lock stays held, even after a release; for the modes
    /// exclusive and fair.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) hold_at_least: Option<prost_types::Duration>,
    /// How long the lock stays closed if its lease ends without a release; for the modes exclusive
    /// and fair.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) lock_delay: Option<prost_types::Duration>,
    #[command(flatten)]
    pub(crate) grant: GrantArgs,
    #[command(flatten)]
    pub(crate) note: NoteArgs,
}

/// A lock that is held.
#[derive(Args, Debug)]
pub(crate) struct HeldArgs {
    /// The lock's name.
    pub(crate) name: String,
    /// The owner, as in the grant.
    #[arg(long)]
    pub(crate) owner: String,
    /// The mode, as in the grant.
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) mode: Mode,
}

/// See [`ClientCommand::Release`](super::ClientCommand::Release).
#[derive(Args, Debug)]
pub struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) held: HeldArgs,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::Renew`](super::ClientCommand::Renew).
#[derive(Args, Debug)]
pub struct RenewArgs {
    #[command(flatten)]
    pub(crate) held: HeldArgs,
    /// The lease, counted from now; never shortens it [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) lease: Option<prost_types::Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::CheckToken`](super::ClientCommand::CheckToken).
#[derive(Args, Debug)]
pub struct CheckTokenArgs {
    /// The lock's name.
    pub(crate) name: String,
    /// The holder's token.
    pub(crate) token: u64,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
