//! One probe of the store for all who ask about it, so that probes cost the store little however
//! many callers send them.

use std::{sync::Arc, time::Duration};

use lockkeeper_coordinator::Coordinator;
use tokio::{sync::Mutex, time::Instant};

/// How long a probe's result is valid.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The error says why not.
type Answer = Result<(), String>;

/// Probes the store at most once per [`PROBE_INTERVAL`], and only when asked: an idle coordinator
/// sends it nothing. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoreProbe {
    coordinator: Coordinator,
    /// The time and the result of the last probe: the problem, if it failed.
    last: Arc<Mutex<Option<(Instant, Answer)>>>,
    /// The same of the last look whether the store takes writes as well.
    last_ready: Arc<Mutex<Option<(Instant, Answer)>>>,
}

// === impl StoreProbe ===

impl StoreProbe {
    /// Probes the coordinator's store.
    pub fn new(coordinator: Coordinator) -> Self {
        Self {
            coordinator,
            last: Arc::default(),
            last_ready: Arc::default(),
        }
    }

    /// Whether the store answered within the last [`PROBE_INTERVAL`]; the error says why not.
    /// Concurrent callers share one probe.
    pub(crate) async fn store_answers(&self) -> Answer {
        let mut last = self.last.lock().await;
        match &*last {
            Some((at, answer)) if at.elapsed() < PROBE_INTERVAL => answer.clone(),
            _ => {
                let answer = self.coordinator.probe().await;
                let answer = answer.map_err(|error| error.to_string());
                *last = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }

    /// The same for a store that answers and takes writes. Logs when that changes.
    pub(crate) async fn is_ready(&self) -> Answer {
        let mut last = self.last_ready.lock().await;
        match &*last {
            Some((at, ready)) if at.elapsed() < PROBE_INTERVAL => ready.clone(),
            before => {
                let ready = self.coordinator.ready().await;
                let was_ready = before.as_ref().is_none_or(|(_, ready)| ready.is_ok());
                match &ready {
                    Err(why) if was_ready => tracing::warn!(why, "not ready"),
                    Ok(()) if !was_ready => tracing::info!("ready again"),
                    Ok(()) | Err(_) => {}
                }
                *last = Some((Instant::now(), ready.clone()));
                ready
            }
        }
    }

    /// Whether the coordinator drains.
    pub(crate) fn is_draining(&self) -> bool {
        self.coordinator.is_draining()
    }
}
