//! The locking of Terraform's http backend, behind the server's translation of HTTP. A lock is an
//! EXCLUSIVE lock, held without a session; its note is Terraform's lock info.

mod info;
mod lock;
mod pb;

pub use pb::v1;

use std::time::Duration;

use tonic::service::Routes;

use crate::Door;

/// Adds the service. Locks have this lease.
pub fn add(routes: Routes, door: &Door, lease: Duration, message_bytes_max: usize) -> Routes {
    let locks = lock::StateLockService {
        door: door.clone(),
        lease,
    };
    let locks = v1::state_lock_server::StateLockServer::new(locks);
    routes.add_service(locks.max_decoding_message_size(message_bytes_max))
}
