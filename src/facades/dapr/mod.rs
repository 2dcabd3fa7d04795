//! Dapr's distributed lock: `TryLockAlpha1` and `UnlockAlpha1` of `dapr.proto.runtime.v1.Dapr`. A
//! lock is the EXCLUSIVE lock `STORE/RESOURCE`, held without a session.

mod lock;
mod pb;

pub use pb::v1;

use tonic::service::Routes;

use crate::Door;

/// Adds the service.
pub fn add(routes: Routes, door: &Door, message_bytes_max: usize) -> Routes {
    let dapr = v1::dapr_server::DaprServer::new(lock::DaprService(door.clone()));
    routes.add_service(dapr.max_decoding_message_size(message_bytes_max))
}
