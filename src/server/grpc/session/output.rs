//! What a session's client is sent, and what shows that the client is alive.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_coordinator::{Answered, EndedByForce, Error, Notice, Stream};
use tokio::sync::{Semaphore, mpsc};
use tonic::Status;

use super::{frames::ping_interval, running::Running, waits::Waits};
use crate::grpc::{
    outbound::Outgoing,
    pb,
    status::{self, status},
};

/// A client that leaves a full queue of answers unread for this long is taken for gone.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// So many pings late, a client is taken for gone: after a lease, unless that is long.
const PINGS_MISSED: u32 = 6;

/// But not before this: a pause of the program is no loss, however short its lease.
const SILENCE_MIN: Duration = Duration::from_secs(10);

/// The queues of answers and notices.
#[derive(Clone)]
pub(super) struct Output {
    pub(super) answers: mpsc::Sender<Answered>,
    pub(super) notices: mpsc::Sender<Outgoing>,
    pub(super) waits: Waits,
    /// Bounds the operations in progress that do not wait.
    pub(super) slots: Arc<Semaphore>,
    pub(super) operations_max: usize,
}

// === impl Output ===

impl Output {
    /// Forwards notices until the coordinator goes away, or the session is ended by force. A notice
    /// leaves the session only when the queue has room for it.
    pub(super) async fn forward_notices(&self, stream: &Stream) -> Status {
        while let Ok(room) = self.notices.reserve().await {
            let notice = match stream.notice().await {
                Ok(notice) => notice,
                Err(EndedByForce(reason)) => return status::session_ended(&reason),
            };
            let last = matches!(notice, Notice::GoingAway);
            room.send(Outgoing::Notice(notice));
            if last {
                break;
            }
        }
        status(&Error::Draining)
    }

    /// Sends a new resume token from time to time. Resolves when the stream has ended.
    pub(super) async fn renew_token(&self, stream: &Stream) {
        loop {
            tokio::time::sleep(stream.resume_token_interval()).await;
            let frame = pb::SessionOpened {
                session_id: stream.id().as_str().to_owned(),
                resume_token: stream.resume_token(),
                ..pb::SessionOpened::default()
            };
            let sent = self.notices.send(Outgoing::Opened(Box::new(frame)));
            if sent.await.is_err() {
                return;
            }
        }
    }

    /// Resolves when every operation that does not wait has been answered.
    pub(super) async fn answered(&self, running: &mut Running) {
        poll_fn(|cx| running.poll_drive(cx)).await;
        let all = u32::try_from(self.operations_max).unwrap_or(u32::MAX);
        let _ = self.slots.acquire_many(all).await;
    }

    /// Resolves when the queue of answers has stayed full and unread for long.
    pub(super) async fn stuck(&self, progress: &AtomicU64) {
        let is_full = || self.answers.capacity() == 0;
        without_progress(progress, STUCK_AFTER, is_full).await;
        tracing::info!("a client does not read its session's stream");
    }
}

/// Resolves when a client that sends pings has been silent for long: it is frozen, or gone behind a
/// proxy that keeps the connection. A client that is sent nothing sends pings, and is sent their
/// answers, so progress shows that it is alive.
pub(super) async fn silent(progress: &AtomicU64, lease: Duration) {
    let silence = (PINGS_MISSED * ping_interval(lease)).max(SILENCE_MIN);
    without_progress(progress, silence, || true).await;
    tracing::info!("a client sends no pings any more");
}

/// Resolves when two looks, this far apart, have both found the condition and no progress between
/// them.
async fn without_progress(progress: &AtomicU64, interval: Duration, condition: impl Fn() -> bool) {
    let mut before = None;
    loop {
        let now = condition().then(|| progress.load(Ordering::Relaxed));
        if now.is_some() && now == before {
            return;
        }
        before = now;
        tokio::time::sleep(interval).await;
    }
}
