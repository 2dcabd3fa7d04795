//! What a host delivers besides answers, and the stream of it.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

/// What a host delivers besides answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A message came in on a subscribed channel.
    Message {
        /// The channel.
        channel: String,
        /// What was published.
        payload: Bytes,
    },
    /// Messages of any subscribed channel may have been missed until now (a reconnect, a full
    /// queue).
    Gap,
    /// Another server has taken over, so what was written last may not be there. Messages may have
    /// been missed too.
    TakenOver,
}

/// The clients' end of a wake stream: bounded, and a queue that overflows turns into one gap.
#[derive(Clone, Debug)]
pub struct WakeSender {
    queue: mpsc::Sender<Wake>,
}

/// Wakes that may wait for the coordinator; more become one gap.
const WAKES_QUEUED_MAX: usize = 8192;

/// How long a full queue is waited for before the gap is tried again.
const GAP_RETRY: Duration = Duration::from_millis(10);

// === impl WakeSender ===

impl WakeSender {
    /// A wake stream.
    pub fn channel() -> (Self, mpsc::Receiver<Wake>) {
        let (queue, wakes) = mpsc::channel(WAKES_QUEUED_MAX);
        (Self { queue }, wakes)
    }

    /// Hands a wake over without waiting. If the queue is full the wake is lost and a gap takes its
    /// place as soon as there is room.
    pub fn send(&self, wake: Wake) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.queue.try_send(wake) {
            let queue = self.queue.clone();
            lockkeeper_base::tasks::spawn_detached("wake-gap", async move {
                while let Err(mpsc::error::TrySendError::Full(_)) = queue.try_send(Wake::Gap) {
                    tokio::time::sleep(GAP_RETRY).await;
                }
            });
        }
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}
