//! What the pages of the admin port are made from.

use std::sync::Arc;

use lockkeeper_access::Access;
use lockkeeper_coordinator::Coordinator;

use super::{metrics::Metrics, repeats::Repeats};

/// What the pages are made from.
#[derive(Clone, Debug)]
pub struct Admin {
    /// The coordinator that is shown.
    pub coordinator: Coordinator,
    /// Who may see it.
    pub access: Access,
    /// What is counted.
    pub metrics: Metrics,
    pub(super) allow_force_release: bool,
    pub(super) is_loopback: bool,
    pub(super) repeats: Arc<Repeats>,
}

// === impl Admin ===

impl Admin {
    /// Pages about a coordinator, for those whom `access` lets see them.
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
