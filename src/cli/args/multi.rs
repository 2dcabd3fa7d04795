//! Arguments of commands about several locks at once.

use clap::Args;
use lockkeeper_api::pb::LockSpec;

use super::common::{CommonArgs, GrantArgs, Mode, NoteArgs, RequestArgs};

/// How to hold several locks.
#[derive(Args, Debug)]
pub struct HoldAllArgs {
    #[command(flatten)]
    pub(crate) locks: LocksArgs,
    #[command(flatten)]
    pub(crate) grant: GrantArgs,
    #[command(flatten)]
    pub(crate) note: NoteArgs,
}

/// See [`ClientCommand::ReleaseAll`](super::ClientCommand::ReleaseAll).
#[derive(Args, Debug)]
pub struct ReleaseAllArgs {
    #[command(flatten)]
    pub(crate) locks: LocksArgs,
    /// The owner, as in the grants.
    #[arg(long)]
    pub(crate) owner: String,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Which locks.
#[derive(Args, Debug)]
pub(crate) struct LocksArgs {
    /// The locks' names.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// The mode in which to hold these locks.
    #[arg(long, short, value_enum, default_value_t)]
    mode: Mode,
    #[command(flatten)]
    more: MoreLocks,
}

/// Locks in a mode of their own.
#[derive(Args, Debug, Default)]
pub(crate) struct MoreLocks {
    /// One more lock, in fair mode; may be repeated.
    #[arg(long, value_name = "NAME")]
    fair: Vec<String>,
    /// One more lock, in read mode; may be repeated.
    #[arg(long, value_name = "NAME")]
    read: Vec<String>,
    /// One more lock, in write mode; may be repeated.
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
    /// The locks named in one mode, then these.
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
