//! Messages on stderr, written by their own thread: the command shares stderr, and a full pipe
//! without a reader must not delay stopping the command.

use std::{sync::mpsc, time::Duration};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use crate::output;

/// How long the process waits at its end for the last message to be read.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// More messages than this are unread only if stderr has no reader; they are dropped.
const UNREAD_MAX: usize = 64;

pub(super) struct Messages {
    queue: mpsc::SyncSender<String>,
    writer: JoinHandle<()>,
}

// === impl Messages ===

impl Messages {
    pub(super) fn start() -> Self {
        let (queue, unread) = mpsc::sync_channel::<String>(UNREAD_MAX);
        let writer = spawn_blocking(move || {
            for message in unread {
                output::say(&message);
            }
        });
        Self { queue, writer }
    }

    /// Returns at once.
    pub(super) fn say(&self, message: String) {
        let _ = self.queue.try_send(message);
    }

    /// Waits until all are written, for [`FLUSH_TIMEOUT`] at most.
    pub(super) async fn flush(self) {
        drop(self.queue);
        let _ = timeout(FLUSH_TIMEOUT, self.writer).await;
    }
}
