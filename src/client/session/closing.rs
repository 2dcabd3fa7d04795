//! The end of a session by its user.

use std::time::Duration;

use tokio::time::Instant;

use super::command::Reply;
use crate::Error;

/// How long the end of a session may take before its holdings are left to their leases.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A session that is being closed.
pub(super) struct Closing {
    pub(super) deadline: Instant,
    /// Whether the coordinator of the current stream was asked.
    pub(super) is_sent: bool,
    is_late: bool,
    reply: Option<Reply<()>>,
}

// === impl Closing ===

impl Closing {
    pub(super) fn new(now: Instant, reply: Option<Reply<()>>) -> Self {
        Self {
            deadline: now + CLOSE_TIMEOUT,
            is_sent: false,
            is_late: false,
            reply,
        }
    }

    /// Whether no coordinator has answered in time.
    pub(super) fn check(&mut self, now: Instant) -> bool {
        self.is_late |= self.deadline <= now;
        self.is_late
    }

    /// Replies to the user, with the error if no coordinator has answered in time.
    pub(super) fn finish(self, error: Error) {
        if let Some(reply) = self.reply {
            let _ = reply.send(if self.is_late { Err(error) } else { Ok(()) });
        }
    }
}
