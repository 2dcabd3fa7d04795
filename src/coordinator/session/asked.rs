//! The last request to yield a grant.

use std::sync::Arc;

use tokio::time::Instant;

/// A request to release a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YieldRequest {
    pub(crate) id: String,
    /// Who asks, for people; may be empty.
    pub by: String,
    /// Why, for people.
    pub reason: String,
    /// Until when the holder may release the lock by itself.
    pub until: Instant,
    /// Whether the lock is taken away then.
    pub preempts: bool,
}

/// The last request for a grant.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) request: Arc<YieldRequest>,
    /// Whether the present stream, or an earlier one of a session that goes on, was given it.
    pub(crate) is_delivered: bool,
}
