//! Looking at the locks that are followed here.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{CallError, keys};
use tokio::time::Instant;

use crate::{
    core::Core,
    follow::{
        followed::{Follows, Heard},
        task::Shown,
    },
    lock_watch::look::{LockShown, Look},
    types::LockName,
};

/// Holders that a look lists; the others are only counted.
const LISTED_MAX: u32 = 100;

// === impl LockShown ===

impl Shown for LockShown {
    const TASK: &'static str = "follow-lock";
    /// A name that is never quiet costs the store at most 100 looks a second.
    const PAUSE: Duration = Duration::from_millis(10);

    fn all(core: &Core) -> &Arc<Follows<Self>> {
        &core.events.locks
    }

    fn per_name_max(core: &Core) -> Option<usize> {
        Some(core.config.limits.waiters_per_lock_max)
    }

    fn channels(name: &LockName) -> Vec<String> {
        let name = name.store_key();
        vec![keys::channel(name), keys::rw_channel(name)]
    }

    async fn look(
        core: &Core,
        name: &LockName,
        heard: Heard,
    ) -> Result<(Self, Option<Duration>), CallError> {
        let begun = Instant::now();
        let seen = core.scripts.inspect(name.store_key(), LISTED_MAX).await;
        let lease = seen.as_ref().ok().and_then(|seen| seen.remaining);
        let (_, here) = core.waiters.list(name, 0);
        let queued = seen.as_ref().map_or(0, |seen| seen.queue_len);
        let look = Look {
            begun,
            heard,
            waiter_count: here + queued,
            seen,
        };
        Ok((Some(Arc::new(look)), lease))
    }
}
