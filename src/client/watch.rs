//! Watching locks.

use lockkeeper_api::pb::{
    LockGap, LockGapReason, WatchLockRequest, WatchLockResponse,
    lock_service_client::LockServiceClient,
};

use crate::{Error, endpoints::Endpoints, follow::Followed};

pub use lockkeeper_api::pb::watch_lock_response::Event as LockEvent;

/// A watch of a lock, see [`Client::watch_lock`](crate::Client::watch_lock).
#[derive(Debug)]
pub struct LockWatch {
    followed: Followed<WatchLockResponse>,
    request: WatchLockRequest,
    /// Comes after the gap before it.
    pending: Option<LockEvent>,
}

// === impl LockWatch ===

impl LockWatch {
    pub(crate) fn new(endpoints: Endpoints, name: String) -> Self {
        Self {
            followed: Followed::new(endpoints),
            request: WatchLockRequest { name },
            pending: None,
        }
    }

    /// The state of the lock, and then each grant, each end of a grant, and the number of waiters,
    /// in order. If the coordinator or the connection fails, it goes on at the next endpoint, for
    /// as long as that takes: with [`LockEvent::Gap`] and the state at that time. Dropping the
    /// future loses nothing.
    ///
    /// Fails with [`Error::Refused`] if the same request would be refused again. The first call
    /// also fails if no coordinator answers.
    pub async fn next(&mut self) -> Result<LockEvent, Error> {
        if let Some(event) = self.pending.take() {
            return Ok(event);
        }
        loop {
            let request = &self.request;
            let open = |transport| {
                let request = request.clone();
                async move { LockServiceClient::new(transport).watch_lock(request).await }
            };
            let (seen, goes_on) = self.followed.next(open).await?;
            if goes_on {
                self.pending = seen.event;
                let reason = LockGapReason::Unheard.into();
                return Ok(LockEvent::Gap(LockGap { reason }));
            }
            if let Some(event) = seen.event {
                return Ok(event);
            }
        }
    }
}
