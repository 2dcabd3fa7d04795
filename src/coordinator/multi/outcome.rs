//! Outcomes of operations on several locks.

use lockkeeper_store::script::Mode;

use crate::{
    multi::undo::DeliveryAll,
    summary::Summary,
    types::{HolderKnown, LockName},
};

/// The outcome of a try.
#[derive(Debug)]
pub enum TriedAll {
    /// The caller holds the locks once it takes this.
    Acquired(DeliveryAll),
    /// Another owner holds one of them.
    Busy {
        /// The lock that is held.
        name: LockName,
        /// What is known of the holder.
        holder: HolderKnown,
    },
}

/// The release of one of several locks.
#[derive(Clone, Debug)]
pub struct ReleasedLock {
    /// The lock.
    pub name: LockName,
    /// The mode it was held in.
    pub mode: Mode,
    /// Holds left after the release of one; none if the owner did not hold it.
    pub left: Option<u32>,
}

// === impl TriedAll ===

impl TriedAll {
    pub(crate) fn summary(&self) -> Summary {
        match self {
            Self::Acquired(_) => Summary::Granted(None),
            Self::Busy { .. } => Summary::Busy,
        }
    }
}
