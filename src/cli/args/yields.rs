//! Arguments of `yield`.

use clap::Args;

use super::common::{CommonArgs, duration};

/// See [`ClientCommand::Yield`](super::ClientCommand::Yield).
#[derive(Args, Debug)]
pub struct YieldArgs {
    /// The lock's name.
    pub(crate) name: String,
    /// The reason, sent to the holders.
    #[arg(long)]
    pub(crate) reason: String,
    /// How long the request stays open, at most 1h.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub(crate) within: prost_types::Duration,
    /// Take the lock from holders that still hold it at the end of that time; they stop before
    /// another owner gets it.
    #[arg(long)]
    pub(crate) preempt: bool,
    /// The longest time for which the lock stays closed while they stop [default: their leases].
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "preempt")]
    pub(crate) grace_period: Option<prost_types::Duration>,
    /// The caller's name, for the holders; a coordinator that authenticates callers sends the
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
