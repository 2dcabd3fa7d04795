//! What is counted of script calls, where they go to a store. The names are those of
//! docs/metrics.md.

use std::sync::Arc;

use lockkeeper_base::metrics::{
    self, Counters, Histogram, Labels, Numbered, OnUse, Registrar, label, numbered, observe,
};
use prometheus_client::metrics::{family::Family, gauge::Gauge};
use tokio::time::Instant;

use super::catalog;
use crate::host::{HostError, Script};

label! {
    /// Why a call has no outcome.
    pub(super) enum Failure = "kind" {
        Unavailable = "unavailable",
        OutcomeUnknown = "outcome_unknown",
        NotReplicated = "not_replicated",
        OutOfMemory = "out_of_memory",
        WrongKind = "wrong_kind",
        Refused = "refused",
    }
}

/// The families of all stores of a coordinator.
#[derive(Debug)]
pub(super) struct Metrics {
    calls: Family<Labels, Histogram, fn() -> Histogram>,
    /// In the order of [`counted`].
    each_call: Vec<OnUse<Histogram>>,
    errors: Counters<Failure>,
    up: Numbered<Gauge>,
}

/// Those of one store.
#[derive(Clone, Debug)]
pub(super) struct StoreMetrics {
    all: Arc<Metrics>,
    up: Gauge,
}

/// What calls are counted by, the most frequent first, because each call searches it.
fn counted() -> impl Iterator<Item = &'static Script> {
    catalog::NATIVE.iter().chain(&catalog::ALL).copied()
}

// === impl Metrics ===

impl Metrics {
    /// For this number of stores, numbered from 1.
    pub(super) fn new(stores: usize) -> Arc<Self> {
        let calls = Family::new_with_constructor(metrics::of_calls as fn() -> Histogram);
        let labels = counted().map(|script| vec![("script", script.name.to_owned())]);
        let numbers = (1..=stores).map(|number| number.to_string());
        Arc::new(Self {
            each_call: labels.map(|it| OnUse::new(&calls, it)).collect(),
            calls,
            errors: Counters::default(),
            up: numbered("store", numbers, Gauge::default),
        })
    }

    /// Those of a store, by its place.
    pub(super) fn of_store(self: &Arc<Self>, at: usize) -> StoreMetrics {
        StoreMetrics {
            all: Arc::clone(self),
            up: self.up.1[at].clone(),
        }
    }

    #[rustfmt::skip]
    pub(super) fn register(&self, to: &mut Registrar<'_>) {
        to.add("store_call_seconds", "From sending a script to its answer", self.calls.clone());
        to.add("store_errors", "Script calls without an outcome, by why", self.errors.family());
        to.add("store_up", "1 if the store answered its last call", self.up.0.clone());
    }
}

// === impl StoreMetrics ===

impl StoreMetrics {
    /// A script that was sent then has this answer.
    pub(super) fn called<T>(
        &self,
        script: &'static Script,
        begun: Instant,
        answer: &Result<T, HostError>,
    ) {
        if let Some(at) = counted().position(|it| std::ptr::eq(it, script)) {
            observe(self.all.each_call[at].get(), begun.elapsed());
        }
        let failure = match answer {
            Ok(_) => None,
            Err(HostError::Unavailable(_)) => Some(Failure::Unavailable),
            Err(HostError::OutcomeUnknown(_)) => Some(Failure::OutcomeUnknown),
            Err(HostError::OutOfMemory) => Some(Failure::OutOfMemory),
            Err(HostError::Rejected { code, .. }) if code == "WRONGTYPE" => {
                Some(Failure::WrongKind)
            }
            Err(HostError::Rejected { .. }) => Some(Failure::Refused),
        };
        let silent = matches!(
            failure,
            Some(Failure::Unavailable | Failure::OutcomeUnknown)
        );
        self.up.set((!silent).into());
        if let Some(failure) = failure {
            self.failed(failure);
        }
    }

    pub(super) fn failed(&self, failure: Failure) {
        self.all.errors.of(failure).inc();
    }
}
