//! Messages to the coordinators of holders, through the one store or the stores of a quorum.

use std::time::Duration;

use super::scripts::{Scripts, Store, on_store};
use crate::script::{CallError, Moved, ToHolders};

// === impl Scripts ===

impl Scripts {
    /// Sends a message to the coordinators of holders, which listen on this channel. Returns which
    /// of the holders an earlier message with the same id has reached. It may be missed: repeat it.
    pub async fn tell_holders(
        &self,
        channel: &str,
        message: &ToHolders,
    ) -> Result<Vec<bool>, CallError> {
        on_store!(self, tell_holders(channel, message))
    }

    /// Tells all coordinators, which listen on this channel, that a session has moved. It may be
    /// missed. The prefix is that of keys.
    pub async fn tell_moved(
        &self,
        channel: &str,
        prefix: &str,
        moved: &Moved,
    ) -> Result<(), CallError> {
        on_store!(self, tell_moved(channel, prefix, moved))
    }

    /// Answers a message to the coordinators of holders: these were reached. Safe to repeat.
    pub async fn holders_reached(
        &self,
        name: &str,
        id: &str,
        holders: &[&str],
        retention: Duration,
    ) -> Result<(), CallError> {
        on_store!(self, holders_reached(name, id, holders, retention))
    }
}
