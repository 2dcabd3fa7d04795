//! What a host delivers besides answers, and the stream of it.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

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
    /// Which wake follows when there is room again, in place of those that were lost.
    owed: Arc<AtomicU8>,
}

/// What is owed. The larger one says all that the smaller one says.
const NOTHING: u8 = 0;
const GAP: u8 = 1;
const TAKEN_OVER: u8 = 2;

/// Wakes that may wait for the coordinator; more become one gap.
const WAKES_QUEUED_MAX: usize = 8192;

// === impl WakeSender ===

impl WakeSender {
    /// A wake stream.
    pub fn channel() -> (Self, mpsc::Receiver<Wake>) {
        let (queue, wakes) = mpsc::channel(WAKES_QUEUED_MAX);
        let owed = Arc::default();
        (Self { queue, owed }, wakes)
    }

    /// Hands a wake over without waiting. If the queue is full the wake is lost. As soon as there
    /// is room one wake takes the place of all that were lost: a gap, or that another server has
    /// taken over if that is among them.
    pub fn send(&self, wake: Wake) {
        let Err(mpsc::error::TrySendError::Full(lost)) = self.queue.try_send(wake) else {
            return;
        };
        let owes = if lost == Wake::TakenOver {
            TAKEN_OVER
        } else {
            GAP
        };
        if self.owed.fetch_max(owes, Ordering::AcqRel) == NOTHING {
            let sender = self.clone();
            lockkeeper_base::tasks::spawn_detached("wake-owed", sender.send_owed());
        }
    }

    async fn send_owed(self) {
        let Ok(room) = self.queue.reserve().await else {
            return;
        };
        room.send(match self.owed.swap(NOTHING, Ordering::AcqRel) {
            TAKEN_OVER => Wake::TakenOver,
            _ => Wake::Gap,
        });
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_that_a_full_queue_loses_is_one_wake() {
        let message = || Wake::Message {
            channel: "channel".to_owned(),
            payload: Bytes::new(),
        };
        let (sender, mut wakes) = WakeSender::channel();
        for (lost, owed) in [(Wake::Gap, Wake::Gap), (Wake::TakenOver, Wake::TakenOver)] {
            for _ in 0..WAKES_QUEUED_MAX + 500 {
                sender.send(message());
            }
            sender.send(lost);
            for _ in 0..500 {
                sender.clone().send(message());
            }
            for _ in 0..WAKES_QUEUED_MAX {
                assert_eq!(wakes.recv().await, Some(message()));
            }
            assert_eq!(wakes.recv().await, Some(owed));
        }
        drop(sender);
        assert_eq!(wakes.recv().await, None, "nothing else was owed");
    }
}
