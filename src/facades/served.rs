//! Which facades are served.

use tonic::service::Routes;

use crate::{Door, dapr, etcd};

/// Which facades are served; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facades {
    /// The calls of Dapr's distributed lock.
    pub dapr: bool,
    /// etcd's leases, locks and elections.
    pub etcd: bool,
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
        routes
    }
}
