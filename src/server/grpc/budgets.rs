//! What callers may use up before they have a right to anything: calls without credentials, watches
//! of the health, and memory for messages that have begun.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use lockkeeper_base::metrics::{Counters, Label as _, Registrar, label};
use prometheus_client::metrics::gauge::Gauge;
use tonic::Status;

use super::{
    peer::{Peer, Usage, Used},
    status,
};
use crate::admission::{Admission, Admitted};

/// Calls without credentials in progress, in total and from one address.
const UNAUTHENTICATED_CALLS_MAX: usize = 1024;
const UNAUTHENTICATED_CALLS_PER_PEER_MAX: usize = UNAUTHENTICATED_CALLS_MAX / 4;

/// Watches of the health, in total and from one address.
const WATCHES_MAX: usize = 1000;
const WATCHES_PER_PEER_MAX: usize = WATCHES_MAX / 4;

label! {
    /// The budget that refused a call.
    pub(super) enum Exhausted = "budget" {
        UnauthenticatedCalls = "unauthenticated_calls",
        HealthWatches = "health_watches",
        UnfinishedBytes = "unfinished_bytes",
    }
}

/// The budgets of one coordinator. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Budgets(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    calls: Admission,
    watches: Admission,
    unfinished_bytes: AtomicUsize,
    unfinished_bytes_max: usize,
    unfinished_bytes_per_connection_max: usize,
    metrics: Metrics,
}

/// The metrics of budgets. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    calls: Gauge,
    watches: Gauge,
    refused: Arc<Counters<Exhausted>>,
}

/// A counted call without credentials, or a counted watch. Dropping the last clone ends it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    _in_all: Arc<Admitted>,
    _on_connection: Arc<Used>,
}

/// The bytes of one call's unfinished message; dropping this frees them.
#[derive(Debug)]
pub(super) struct Unfinished {
    budgets: Budgets,
    usage: Arc<Usage>,
    bytes: usize,
}

// === impl Metrics ===

impl Metrics {
    pub(super) fn register(&self, to: &mut Registrar<'_>) {
        to.add(
            "unauthenticated_calls",
            "Calls without credentials in progress, where credentials are required",
            self.calls.clone(),
        );
        to.add(
            "health_watches",
            "Streams that watch the health",
            self.watches.clone(),
        );
        to.add(
            "budget_refusals",
            "Calls refused because of a budget that callers without rights share",
            self.refused.family(),
        );
    }
}

// === impl Budgets ===

impl Budgets {
    pub(super) fn new(
        unfinished_bytes_max: usize,
        unfinished_bytes_per_connection_max: usize,
        metrics: &Metrics,
    ) -> Self {
        let calls = Admission::new(
            UNAUTHENTICATED_CALLS_MAX,
            UNAUTHENTICATED_CALLS_PER_PEER_MAX,
            metrics.calls.clone(),
        );
        let watches = Admission::new(WATCHES_MAX, WATCHES_PER_PEER_MAX, metrics.watches.clone());
        Self(Arc::new(Shared {
            calls,
            watches,
            unfinished_bytes: AtomicUsize::new(0),
            unfinished_bytes_max,
            unfinished_bytes_per_connection_max,
            metrics: metrics.clone(),
        }))
    }

    /// Counts a call without credentials.
    pub(super) fn call(&self, peer: &Peer) -> Result<Place, Status> {
        let placed = || {
            let on_connection = peer.usage.call()?;
            place(&self.0.calls, peer, on_connection)
        };
        placed().ok_or_else(|| self.refused(Exhausted::UnauthenticatedCalls))
    }

    /// Counts a watch of the health.
    pub(super) fn watch(&self, peer: &Peer) -> Result<Place, Status> {
        let placed = || {
            let on_connection = peer.usage.watch()?;
            place(&self.0.watches, peer, on_connection)
        };
        placed().ok_or_else(|| self.refused(Exhausted::HealthWatches))
    }

    /// No byte of a message is unfinished yet.
    pub(super) fn unfinished(&self, usage: &Arc<Usage>) -> Unfinished {
        Unfinished {
            budgets: self.clone(),
            usage: Arc::clone(usage),
            bytes: 0,
        }
    }

    fn refused(&self, exhausted: Exhausted) -> Status {
        self.0.metrics.refused.of(exhausted).inc();
        status::exhausted(exhausted.value())
    }
}

fn place(of: &Admission, peer: &Peer, on_connection: Used) -> Option<Place> {
    let in_all = of.admit(peer.ip()).ok()?;
    Some(Place {
        _in_all: Arc::new(in_all),
        _on_connection: Arc::new(on_connection),
    })
}

// === impl Unfinished ===

impl Unfinished {
    /// The message has these bytes so far. Fails if that is too much for the connection or for all.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), Status> {
        let Shared {
            unfinished_bytes,
            unfinished_bytes_max,
            unfinished_bytes_per_connection_max,
            ..
        } = &*self.budgets.0;
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.free(self.bytes - bytes);
            return Ok(());
        };
        let of_all = unfinished_bytes.fetch_add(more, Ordering::Relaxed) + more;
        let unfinished = &self.usage.unfinished;
        let of_connection = unfinished.fetch_add(more, Ordering::Relaxed) + more;
        self.bytes = bytes;
        if of_all > *unfinished_bytes_max || of_connection > *unfinished_bytes_per_connection_max {
            return Err(self.budgets.refused(Exhausted::UnfinishedBytes));
        }
        Ok(())
    }

    fn free(&mut self, bytes: usize) {
        let all = &self.budgets.0.unfinished_bytes;
        all.fetch_sub(bytes, Ordering::Relaxed);
        self.usage.unfinished.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.free(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(metrics: &Metrics) -> Budgets {
        Budgets::new(100, 60, metrics)
    }

    #[test]
    fn unfinished_bytes_are_limited_in_total_and_per_connection_and_given_back() {
        let metrics = Metrics::default();
        let budgets = budgets(&metrics);
        let (one, other) = (Arc::<Usage>::default(), Arc::<Usage>::default());
        let (mut first, mut second) = (budgets.unfinished(&one), budgets.unfinished(&other));
        first.set(60).unwrap();
        assert!(budgets.unfinished(&one).set(1).is_err(), "the connection's");
        assert!(second.set(41).is_err(), "that of all");
        assert_eq!(metrics.refused.of(Exhausted::UnfinishedBytes).get(), 2);
        second.set(0).unwrap();
        first.set(10).unwrap();
        budgets.unfinished(&one).set(50).unwrap();
        second.set(60).unwrap();
        drop((first, second));
        let left = budgets.0.unfinished_bytes.load(Ordering::Relaxed);
        assert_eq!((left, one.unfinished.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn calls_and_watches_are_counted_apart_and_back() {
        let (metrics, peer) = (Metrics::default(), Peer::default());
        let budgets = budgets(&metrics);
        let mut calls = Vec::new();
        while let Ok(place) = budgets.call(&peer) {
            calls.push(place);
        }
        let watch = budgets.watch(&peer).unwrap();
        assert_eq!(metrics.calls.get(), i64::try_from(calls.len()).unwrap());
        assert_eq!(metrics.watches.get(), 1);
        assert_eq!(metrics.refused.of(Exhausted::UnauthenticatedCalls).get(), 1);
        calls.pop();
        calls.push(budgets.call(&peer).unwrap());
        drop((calls, watch));
        assert_eq!((metrics.calls.get(), metrics.watches.get()), (0, 0));
    }
}
