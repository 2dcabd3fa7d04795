//! The protocols of other systems.

use serde::{Deserialize, Serialize};

/// The protocols of other systems that are served on the same listeners.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facades {
    /// Serves the calls of Dapr's distributed lock.
    pub dapr: bool,
    /// Serves etcd's leases, locks and elections.
    pub etcd: bool,
}
