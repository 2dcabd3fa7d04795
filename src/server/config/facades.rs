//! The protocols of other systems.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The protocols of other systems that are served on the same listeners.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facades {
    /// Serves the calls of Dapr's distributed lock.
    pub dapr: bool,
    /// Serves etcd's leases, locks and elections.
    pub etcd: bool,
    /// Serves the locks of Terraform's http backend.
    pub terraform: bool,
    /// The lease of those locks, which nothing renews.
    #[serde(with = "humantime_serde")]
    pub terraform_lease: Duration,
}

impl Default for Facades {
    fn default() -> Self {
        Self {
            dapr: false,
            etcd: false,
            terraform: false,
            terraform_lease: Duration::from_secs(24 * 3600),
        }
    }
}
