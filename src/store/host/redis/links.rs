//! The shared connections to one server.

use std::{hash::BuildHasher as _, sync::Arc};

use foldhash::fast::FixedState;
use futures::future::join_all;
use lockkeeper_base::tasks::spawn_detached;

use super::{ConfigError, link::Link, settings, target::Target};
use crate::host::Call;

/// Never none.
#[derive(Debug)]
pub(super) struct Links(Vec<Link>);

// === impl Links ===

impl Links {
    /// Starts connecting, and has a look at the server's settings whenever it is reached, and now
    /// and then.
    pub(super) fn open(count: usize, target: &Target) -> Result<Self, ConfigError> {
        let links: Vec<_> = (0..count).map(|_| Link::open(target.clone())).collect();
        let mut ups = links.first().ok_or(ConfigError::NoConnections)?.ups();
        let reached = target.clone();
        spawn_detached("redis-settings", async move {
            let mut seen = settings::Seen::default();
            while ups.next(settings::LOOK_INTERVAL).await {
                if let Ok(endpoint) = reached.endpoint() {
                    settings::check(&endpoint, &mut seen).await;
                }
            }
        });
        Ok(Self(links))
    }

    /// Calls that concern the same key take the same connection, and so run in the order in which
    /// they were sent, also after some of them have not been answered in time. Only a transaction
    /// may be overtaken, while its callers wait.
    pub(super) fn of(&self, call: &Call) -> &Link {
        self.of_key(call.keys.first())
    }

    /// The connection of the calls whose first key is this.
    pub(super) fn of_key(&self, key: Option<&[u8]>) -> &Link {
        if let [only] = self.0.as_slice() {
            return only;
        }
        let hash = FixedState::default().hash_one(key);
        let links = self.0.len() as u64;
        let index = usize::try_from(hash % links).unwrap_or_default();
        &self.0[index]
    }

    /// Whether a server that they lead to has not refused commands without a script.
    pub(super) fn run_commands(&self) -> bool {
        self.0.iter().any(Link::runs_commands)
    }

    /// Resolves when each has connected or failed to.
    pub(super) async fn first_attempt(&self) {
        join_all(self.0.iter().map(Link::first_attempt)).await;
    }

    /// Which process they lead to, if that is known.
    pub(super) fn run_id(&self) -> Option<Arc<str>> {
        self.0.iter().find_map(Link::run_id)
    }
}
