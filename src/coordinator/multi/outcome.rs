//! What came of it.

use lockkeeper_store::script::Mode;
use tokio::time::Instant;

use crate::{multi::undo::DeliveryAll, types::LockName};

/// What a try came to.
#[derive(Debug)]
pub enum TriedAll {
    /// The caller holds the locks as soon as it takes this.
    Acquired(DeliveryAll),
    /// Somebody else holds one of them.
    Busy {
        /// That one.
        name: LockName,
        /// When the holder's lease ends; none if its key has no time to live.
        holder_until: Option<Instant>,
    },
}

/// What became of one of several locks.
#[derive(Clone, Debug)]
pub struct ReleasedLock {
    /// The lock.
    pub name: LockName,
    /// How it was held.
    pub mode: Mode,
    /// Holds left after one was given back; none if the owner did not hold it.
    pub left: Option<u32>,
}
