//! Which facades are served.

use std::time::Duration;

use tonic::service::Routes;

use crate::{Door, dapr, etcd, terraform};

/// Which facades are served; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facades {
    /// The calls of Dapr's distributed lock.
    pub dapr: bool,
    /// etcd's leases, locks and elections.
    pub etcd: bool,
    /// The locks of Terraform's http backend, with this lease.
    pub terraform: Option<Duration>,
}

// === impl Facades ===

impl Facades {
    /// The services. What they keep in memory belongs to this coordinator.
    pub fn routes(self, door: &Door, message_bytes_max: usize) -> Routes {
        let mut routes = Routes::default();
        if self.dapr {
            routes = dapr::add(routes, door, message_bytes_max);
        }
        if self.etcd {
            routes = etcd::add(routes, door, message_bytes_max);
        }
        if let Some(lease) = self.terraform {
            routes = terraform::add(routes, door, lease, message_bytes_max);
        }
        routes
    }
}
