//! One probe of the store for all who ask about it, so that probes cost the store little however
//! many callers send them.

use std::{sync::Arc, time::Duration};

use lockkeeper_coordinator::Coordinator;
use tokio::{sync::Mutex, time::Instant};

/// How long a probe's result is valid.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_secs(1);

type Answer = Result<(), String>;

/// Probes the store at most once per [`PROBE_INTERVAL`], and only when asked: an idle coordinator
/// sends it nothing. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoreProbe {
    coordinator: Coordinator,
    /// The time and the result of the last probe: the problem, if it failed.
    last: Arc<Mutex<Option<(Instant, Answer)>>>,
}

// === impl StoreProbe ===

impl StoreProbe {
    /// Probes the coordinator's store.
    pub fn new(coordinator: Coordinator) -> Self {
        Self {
            coordinator,
            last: Arc::default(),
        }
    }

    /// Whether the store answered and took writes within the last [`PROBE_INTERVAL`]; the error says why not.
    /// Concurrent callers share one probe.
    pub(crate) async fn store_answers(&self) -> Answer {
        let mut last = self.last.lock().await;
        match &*last {
            Some((at, answer)) if at.elapsed() < PROBE_INTERVAL => answer.clone(),
            _ => {
                let answer = self.coordinator.ready().await.map_err(str::to_owned);
                *last = Some((Instant::now(), answer.clone()));
                answer
            }
        }
    }

    /// Whether the coordinator drains.
    pub(crate) fn is_draining(&self) -> bool {
        self.coordinator.is_draining()
    }
}
