//! What this layer decides by a function of values, for `model/`.

use std::time::Duration;

use tokio::time::Instant;

use super::types::safe_until;

/// For how long a grant is relied on, from before the store was called.
pub fn relied_on(lease: Duration) -> Duration {
    let now = Instant::now();
    safe_until(now, lease) - now
}
