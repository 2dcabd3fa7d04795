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
    evicts: Gauge,
    lacks: Gauge,
}

/// An open connection, as long as this is kept.
#[derive(Debug)]
pub(super) struct Open(Gauge);

/// What one server adds to a gauge of all servers, as long as this is kept.
#[derive(Debug)]
pub(super) struct Share {
    gauge: Gauge,
    value: i64,
}

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
            "Servers whose maxmemory-policy is not noeviction, when last seen; must stay 0",
            self.0.evicts.clone(),
        );
        to.add(
            "store_rights_missing",
            "Commands that the store's user needs and may not run, of all servers, when last \
             seen; must stay 0",
            self.0.lacks.clone(),
        );
    }

    /// Whether a server was last seen with a policy that evicts keys: 1 or 0.
    pub(super) fn evicts(&self) -> Share {
        Share::of(&self.0.evicts)
    }

    /// How many commands a server's user may not run that it needs.
    pub(super) fn lacks(&self) -> Share {
        Share::of(&self.0.lacks)
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

// === impl Share ===

impl Share {
    fn of(gauge: &Gauge) -> Self {
        Self {
            gauge: gauge.clone(),
            value: 0,
        }
    }

    /// Replaces what the server adds.
    pub(super) fn set(&mut self, value: usize) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.gauge.inc_by(value - self.value);
        self.value = value;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.gauge.dec_by(self.value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_counts_until_it_is_left() {
        let metrics = Metrics::default();
        let (mut one, mut other) = (metrics.evicts(), metrics.evicts());
        one.set(1);
        other.set(0);
        assert_eq!(metrics.0.evicts.get(), 1, "the last look is not all");
        other.set(1);
        one.set(1);
        assert_eq!(metrics.0.evicts.get(), 2);
        drop(one);
        assert_eq!(metrics.0.evicts.get(), 1);
        other.set(0);
        assert_eq!(metrics.0.evicts.get(), 0);
        let mut lacks = metrics.lacks();
        lacks.set(3);
        assert_eq!(metrics.0.lacks.get(), 3);
        drop(lacks);
        assert_eq!(metrics.0.lacks.get(), 0);
    }
}
