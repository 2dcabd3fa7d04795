//! The state behind the pages of the admin port.

use std::sync::Arc;

use lockkeeper_access::Access;
use lockkeeper_coordinator::Coordinator;

use super::{metrics::Metrics, repeats::Repeats};

/// The state behind the pages.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The coordinator that the pages show.
    pub coordinator: Coordinator,
    /// The rules of this port.
    pub access: Access,
    /// The exposed metrics.
    pub metrics: Metrics,
    pub(super) allow_force_release: bool,
    pub(super) is_loopback: bool,
    pub(super) repeats: Arc<Repeats>,
}

// === impl Admin ===

impl Admin {
    /// Pages about a coordinator, for callers that `access` allows.
    pub fn new(
        coordinator: Coordinator,
        access: Access,
        metrics: Metrics,
        allow_force_release: bool,
    ) -> Self {
        Self {
            coordinator,
            access,
            metrics,
            allow_force_release,
            is_loopback: false,
            repeats: Arc::default(),
        }
    }
}
