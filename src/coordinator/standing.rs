//! What a caller holds or waits for, and since when.

use tokio::time::Instant;

use crate::events::Event;

/// A holding or a wait.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The event that began it: a grant, or a wait.
    pub event: Event,
    /// When it began.
    pub since: Instant,
    /// Of a holding: no other owner can have it until then.
    pub valid_until: Option<Instant>,
}
