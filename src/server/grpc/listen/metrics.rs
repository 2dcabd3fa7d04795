//! The metrics of connections.

use std::sync::Arc;

use lockkeeper_base::metrics::{Counters, Registrar, label};
use prometheus_client::metrics::gauge::Gauge;

label! {
    /// Why a connection was closed before its first call, or was not accepted.
    pub(super) enum Refused = "reason" {
        ConnectionsMax = "connections_max",
        ConnectionsPerPeerMax = "connections_per_peer_max",
        UnauthenticatedMax = "unauthenticated_connections_max",
        Handshake = "handshake",
        Accept = "accept",
    }
}

/// The families. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Families>);

#[derive(Debug, Default)]
struct Families {
    open: Gauge,
    refused: Counters<Refused>,
}

// === impl Metrics ===

impl Metrics {
    pub(in crate::grpc) fn register(&self, to: &mut Registrar<'_>) {
        to.add("connections", "Connections of clients", self.0.open.clone());
        to.add(
            "connections_refused",
            "Refused or failed connections, by reason",
            self.0.refused.family(),
        );
    }

    /// Connections of clients.
    pub(super) fn open(&self) -> Gauge {
        self.0.open.clone()
    }

    pub(super) fn refused(&self, why: Refused) {
        self.0.refused.of(why).inc();
    }
}
