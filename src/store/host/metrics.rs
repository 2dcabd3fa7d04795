//! What is counted of connections to a store. The names are those of docs/metrics.md.

use std::sync::Arc;

use lockkeeper_base::metrics::{self, By, Counters, Registrar, label};
use prometheus_client::metrics::gauge::Gauge;

label! {
    /// What a connection is for.
    pub(super) enum Purpose = "purpose" {
        Calls = "calls",
        Subscriptions = "subscriptions",
    }
}

/// The families of the connections of one coordinator; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Families>);

#[derive(Debug)]
struct Families {
    open: By<Gauge, Purpose>,
    opened: Counters<Purpose>,
    evicts: Gauge,
    lacks: Gauge,
}

/// An open connection, as long as this is kept.
#[derive(Debug)]
pub(super) struct Open(Gauge);

// === impl Metrics ===

impl Default for Families {
    fn default() -> Self {
        Self {
            open: By::new(Gauge::default),
            opened: Counters::default(),
            evicts: Gauge::default(),
            lacks: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Shows them.
    pub fn register(&self, to: &mut Registrar<'_>) {
        to.add(
            "store_connections",
            "Open connections to the store, by what they are for",
            self.0.open.family(),
        );
        to.add(
            "store_connections_opened",
            "Connections to the store that were opened: those after the first are reconnects",
            self.0.opened.family(),
        );
        to.add(
            "store_may_evict",
            "1 if the store's maxmemory-policy is not noeviction, when last seen; must stay 0",
            self.0.evicts.clone(),
        );
        to.add(
            "store_rights_missing",
            "Commands that the store's user needs and may not run, when last seen; must stay 0",
            self.0.lacks.clone(),
        );
    }

    /// Whether the store was last seen with a policy that evicts keys.
    pub(super) fn evicts(&self, evicts: bool) {
        self.0.evicts.set(evicts.into());
    }

    /// How many commands the store's user may not run that it needs.
    pub(super) fn lacks(&self, commands: usize) {
        metrics::set(&self.0.lacks, commands);
    }

    /// A connection was opened.
    pub(super) fn opened(&self, purpose: Purpose) -> Open {
        self.0.opened.of(purpose).inc();
        let open = self.0.open.of(purpose).clone();
        open.inc();
        Open(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
