//! Messages on stderr, written by a thread of their own: the command has the same stderr, and if it
//! fills a pipe that nobody reads, writing to it must not keep us from stopping the command in
//! time.

use std::{sync::mpsc, time::Duration};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use crate::output;

/// How long the end of the process waits for somebody to read the last message.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// More can only be unread if nobody reads at all; then they are dropped.
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

    /// Waits until all are written, but not for ever.
    pub(super) async fn flush(self) {
        drop(self.queue);
        let _ = timeout(FLUSH_TIMEOUT, self.writer).await;
    }
}
