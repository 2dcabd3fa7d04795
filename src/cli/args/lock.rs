//! The words of commands about one lock, or about several at once.

use std::time::Duration;

use clap::Args;
use lockkeeper_api::pb::LockSpec;

use super::{CommonArgs, Mode, TEMPLATE};
use crate::exit;

/// See [`ClientCommand::Acquire`](super::ClientCommand::Acquire).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper acquire orders --wait 10s
  lockkeeper acquire orders --mode fair --wait 1m
  lockkeeper acquire orders --lease 5m --owner job-17 --request-id $(uuidgen)", after_help = exit::HELP)]
pub struct AcquireArgs {
    #[command(flatten)]
    pub(crate) hold: HoldArgs,
    /// How long to wait [default: without limit].
    #[arg(long, short, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::TryAcquire`](super::ClientCommand::TryAcquire).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper try-acquire orders --output json
  lockkeeper try-acquire catalogue --mode read --owner job-17", after_help = exit::HELP)]
pub struct TryAcquireArgs {
    #[command(flatten)]
    pub(crate) hold: HoldArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// How to hold a lock.
#[derive(Args, Debug)]
pub(crate) struct HoldArgs {
    /// The lock's name.
    pub(crate) name: String,
    /// How long the store keeps the grant unless it is renewed [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) lease: Option<Duration>,
    /// Who holds it; the same owner may take it again [default: made by the coordinator].
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// Makes a repeat safe: it gets the first answer.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// How to hold it.
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) mode: Mode,
    /// Replicas of the store that must know of the grant before it counts; the coordinator may ask
    /// for more.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) min_replica_acks: u32,
}

/// See [`ClientCommand::Release`](super::ClientCommand::Release).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper release orders --owner job-17
  lockkeeper release catalogue --mode read --owner job-17", after_help = exit::HELP)]
pub struct ReleaseArgs {
    /// The lock's name.
    pub(crate) name: String,
    /// The owner, as the grant named it.
    #[arg(long)]
    pub(crate) owner: String,
    /// How it is held, as the grant said.
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) mode: Mode,
    /// Makes a repeat safe: it gets the first answer.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::Renew`](super::ClientCommand::Renew).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper renew orders --owner job-17 --lease 5m
  lockkeeper renew catalogue --mode read --owner job-17", after_help = exit::HELP)]
pub struct RenewArgs {
    /// The lock's name.
    pub(crate) name: String,
    /// The owner, as the grant named it.
    #[arg(long)]
    pub(crate) owner: String,
    /// How it is held, as the grant said.
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) mode: Mode,
    /// The lease to count from now; never shortens it [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) lease: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::Describe`](super::ClientCommand::Describe).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper describe orders
  lockkeeper describe orders --output json | jq -r '.waiters[].owner'", after_help = exit::HELP)]
pub struct DescribeArgs {
    /// The lock's name.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::CheckToken`](super::ClientCommand::CheckToken).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper check-token orders 1700000000000000 || exit 1", after_help = exit::HELP)]
pub struct CheckTokenArgs {
    /// The lock's name.
    pub(crate) name: String,
    /// The token that the holder showed.
    pub(crate) token: u64,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::AcquireAll`](super::ClientCommand::AcquireAll).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper acquire-all orders billing --wait 10s
  lockkeeper acquire-all index --mode write --read prices --owner job-17", after_help = exit::HELP)]
pub struct AcquireAllArgs {
    #[command(flatten)]
    pub(crate) hold: HoldAllArgs,
    /// How long to wait for all of them together [default: without limit].
    #[arg(long, short, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::TryAcquireAll`](super::ClientCommand::TryAcquireAll).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper try-acquire-all orders billing --output json", after_help = exit::HELP)]
pub struct TryAcquireAllArgs {
    #[command(flatten)]
    pub(crate) hold: HoldAllArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::ReleaseAll`](super::ClientCommand::ReleaseAll).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper release-all orders billing --owner job-17
  lockkeeper release-all index --mode write --read prices --owner job-17",
  after_help = exit::HELP)]
pub struct ReleaseAllArgs {
    #[command(flatten)]
    pub(crate) locks: LocksArgs,
    /// The owner, as the grants named it.
    #[arg(long)]
    pub(crate) owner: String,
    /// Makes a repeat safe: it gets the first answer.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// How to hold several locks.
#[derive(Args, Debug)]
pub(crate) struct HoldAllArgs {
    #[command(flatten)]
    pub(crate) locks: LocksArgs,
    /// How long the store keeps each grant unless it is renewed [default: the coordinator's].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) lease: Option<Duration>,
    /// Who holds them; the same owner may take them again [default: made by the coordinator].
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// Makes a repeat safe: it gets the first answer.
    #[arg(long, value_name = "ID")]
    pub(crate) request_id: Option<String>,
    /// Replicas of the store that must know of each grant before it counts; the coordinator may ask
    /// for more.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) min_replica_acks: u32,
}

/// Which locks.
#[derive(Args, Debug)]
pub(crate) struct LocksArgs {
    /// The locks' names.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// How to hold those.
    #[arg(long, short, value_enum, default_value_t)]
    mode: Mode,
    #[command(flatten)]
    more: MoreLocks,
}

/// Locks in a mode of their own.
#[derive(Args, Debug)]
pub(crate) struct MoreLocks {
    /// One more lock, fairly, whatever --mode says; may be repeated.
    #[arg(long, value_name = "NAME")]
    fair: Vec<String>,
    /// One more lock, for reading; may be repeated.
    #[arg(long, value_name = "NAME")]
    read: Vec<String>,
    /// One more lock, for writing; may be repeated.
    #[arg(long, value_name = "NAME")]
    write: Vec<String>,
}

// === impl LocksArgs ===

impl LocksArgs {
    /// All of them.
    pub(crate) fn specs(&self) -> Vec<LockSpec> {
        self.more.after(self.names.iter(), self.mode)
    }
}

// === impl MoreLocks ===

impl MoreLocks {
    /// Those that were named in one mode, then these.
    pub(super) fn after<'a>(
        &'a self,
        named: impl Iterator<Item = &'a String>,
        mode: Mode,
    ) -> Vec<LockSpec> {
        let in_mode = |names: &'a [String], mode| names.iter().map(move |name| (name, mode));
        named
            .map(|name| (name, mode))
            .chain(in_mode(&self.fair, Mode::Fair))
            .chain(in_mode(&self.read, Mode::Read))
            .chain(in_mode(&self.write, Mode::Write))
            .map(|(name, mode)| LockSpec {
                name: name.clone(),
                mode: mode.to_proto().into(),
            })
            .collect()
    }
}
