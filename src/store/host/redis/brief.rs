//! Connections that are lost as soon as they are opened, as by a server that evicts its clients, or
//! a proxy in front of none: fewer attempts, and one line for all of them.

use std::{pin::pin, time::Duration};

use tokio::time::timeout;

use super::endpoint::Endpoint;

/// Between the starts of two attempts to connect.
pub(super) const RECONNECT_INTERVAL: Duration = Duration::from_millis(100);

/// The same where connections are lost as soon as they are opened.
const RECONNECT_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// A connection that lives for less is lost as soon as it was opened.
const BRIEF: Duration = Duration::from_millis(100);

/// So many in a row are more than an accident.
const BRIEF_MAX: u32 = 3;

pub(super) const CLOSED_AT_ONCE: &str = "the server closes connections as soon as they are opened";

/// Connections in a row that were lost as soon as they were opened.
#[derive(Debug, Default)]
pub(super) struct Brief(u32);

// === impl Brief ===

impl Brief {
    /// Waits until a connection is lost, and says so once however many are lost at once.
    pub(super) async fn until(&mut self, lost: impl Future<Output = ()>, endpoint: &Endpoint) {
        let mut lost = pin!(lost);
        let was_usual = self.is_usual();
        if !was_usual {
            tracing::info!(?endpoint, "connected");
        }
        if timeout(BRIEF, &mut lost).await.is_ok() {
            self.0 = self.0.saturating_add(1);
            if was_usual {
                return;
            }
            if self.is_usual() {
                tracing::warn!(?endpoint, "{CLOSED_AT_ONCE}, retrying");
                return;
            }
        } else {
            self.0 = 0;
            if was_usual {
                tracing::info!(?endpoint, "connected");
            }
            lost.await;
        }
        tracing::info!(?endpoint, "connection lost");
    }

    /// Whether it is what happens to connections by now.
    pub(super) fn is_usual(&self) -> bool {
        self.0 >= BRIEF_MAX
    }

    /// Before the next attempt.
    pub(super) fn pause(&self) -> Duration {
        let doublings = self.0.saturating_sub(BRIEF_MAX - 1).min(8);
        let pause = RECONNECT_INTERVAL * 2_u32.pow(doublings);
        if self.is_usual() {
            pause.min(RECONNECT_INTERVAL_MAX)
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_while_connections_are_lost_at_once() {
        let endpoint = Endpoint::new(&super::super::RedisConfig::default()).unwrap();
        let mut brief = Brief::default();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            brief.until(std::future::ready(()), &endpoint).await;
            pauses.push(brief.pause().as_millis());
        }
        assert_eq!(pauses, [0, 0, 200, 400, 800, 1000, 1000]);
        brief.until(sleep(BRIEF * 2), &endpoint).await;
        assert!(brief.pause().is_zero() && !brief.is_usual());
    }
}
