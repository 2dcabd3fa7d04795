//! What is counted of connections to a store. The names are those of docs/metrics.md.

use std::sync::Arc;

use lockkeeper_base::metrics::{By, Counters, Registrar, label};
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
