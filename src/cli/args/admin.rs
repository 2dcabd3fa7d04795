//! The words of what needs the admin right.

use clap::Args;

use super::{CommonArgs, TEMPLATE};
use crate::exit;

/// See [`ClientCommand::List`](super::ClientCommand::List).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper list
  lockkeeper list --prefix orders: --output json | jq -r .name", after_help = exit::HELP)]
pub struct ListArgs {
    /// Only names that begin with it.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::Sessions`](super::ClientCommand::Sessions).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper sessions", after_help = exit::HELP)]
pub struct SessionsArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::Watch`](super::ClientCommand::Watch).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper watch --prefix orders:", after_help = exit::HELP)]
pub struct WatchArgs {
    /// Only names that begin with it.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// See [`ClientCommand::ForceRelease`](super::ClientCommand::ForceRelease).
#[derive(Args, Debug)]
#[command(help_template = TEMPLATE, before_help = "\
Examples:
  lockkeeper force-release orders --reason 'host 7 has burned down'", after_help = exit::HELP)]
pub struct ForceReleaseArgs {
    /// The lock's name.
    pub(crate) name: String,
    /// Why; the holder is told, and the audit log has it.
    #[arg(long)]
    pub(crate) reason: String,
    /// Do not ask.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
