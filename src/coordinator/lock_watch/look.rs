//! What is followed of a lock.

use std::sync::Arc;

use lockkeeper_store::script::{CallError, Inspected};
use tokio::time::Instant;

use crate::follow::followed::Heard;

/// The last look; none before the first.
pub(crate) type LockShown = Option<Arc<Look>>;

/// A look at a lock in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Just before the store was asked.
    pub(crate) begun: Instant,
    /// What was heard since the look before.
    pub(crate) heard: Heard,
    /// All waiters of a fair lock, otherwise those at this coordinator.
    pub(crate) waiter_count: usize,
    pub(crate) seen: Result<Inspected, CallError>,
}
