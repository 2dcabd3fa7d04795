//! The state behind the pages of the admin port.

use std::sync::Arc;

use axum::http::StatusCode;
use lockkeeper_access::{Access, Audited};
use lockkeeper_coordinator::Coordinator;
use prometheus_client::metrics::gauge::Gauge;

use super::{failure::Failure, metrics::Metrics};
use crate::{
    admission::Admission,
    fleet::Fleet,
    hosts::AllowedHosts,
    pages::{Local, Samples},
    probe::StoreProbe,
    repeats::Repeats,
};

/// Event streams, in total and of one address.
const STREAMS_MAX: usize = 32;
const STREAMS_PER_PEER_MAX: usize = STREAMS_MAX / 4;

/// The state behind the pages.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The coordinator that the pages show.
    pub coordinator: Coordinator,
    /// The rules of this port.
    pub access: Access,
    /// The exposed metrics.
    pub metrics: Metrics,
    pub(super) probe: StoreProbe,
    pub(super) allow_force_release: bool,
    pub(super) authenticates_metrics: bool,
    pub(super) hosts: Arc<AllowedHosts>,
    pub(super) fleet: Fleet,
    pub(super) streams: Admission,
    pub(super) repeats: Arc<Repeats>,
    pub(super) samples: Samples,
}

/// What the port allows.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Whether the console may release locks of others.
    pub allow_force_release: bool,
    /// Whether scrapers of metrics have to show a token.
    pub authenticates_metrics: bool,
    /// The hosts that pages may name.
    pub hosts: AllowedHosts,
    /// The other coordinators.
    pub fleet: Fleet,
    /// What the charts are drawn from.
    pub samples: Samples,
}

// === impl Admin ===

impl Admin {
    /// Refuses a change unless the configuration allows them.
    pub(super) fn may_change(&self, asked: &Audited<'_>) -> Result<(), Failure> {
        if self.allow_force_release {
            return Ok(());
        }
        asked.denied();
        let why = "admin.allow_force_release is not set";
        Err(Failure::new(StatusCode::FORBIDDEN, "NOT_ENABLED", why))
    }

    /// What its own pages are read from.
    pub(super) fn local(&self) -> Local {
        Local {
            coordinator: self.coordinator.clone(),
            probe: self.probe.clone(),
            samples: self.samples.clone(),
        }
    }

    /// Pages about a coordinator, which keeps its history from now on, for callers that `access`
    /// allows.
    pub fn new(
        coordinator: Coordinator,
        probe: StoreProbe,
        access: Access,
        metrics: Metrics,
        config: Config,
    ) -> Self {
        coordinator.keep_history();
        Self {
            coordinator,
            access,
            metrics,
            probe,
            allow_force_release: config.allow_force_release,
            authenticates_metrics: config.authenticates_metrics,
            hosts: Arc::new(config.hosts),
            fleet: config.fleet,
            streams: Admission::new(STREAMS_MAX, STREAMS_PER_PEER_MAX, Gauge::default()),
            repeats: Arc::default(),
            samples: config.samples,
        }
    }
}
