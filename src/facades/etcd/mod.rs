//! etcd's services for leases, locks and elections: `etcdserverpb.Lease`, `v3lockpb.Lock` and
//! `v3electionpb.Election`. A lease is a session that only keepalives keep, and a lock is the FAIR
//! lock of its name. Keys are not stored: there is no `KV`.

mod election;
mod key;
mod lease;
mod leases;
mod lock;
mod pb;
mod refused;

pub use pb::{etcdserverpb, mvccpb, v3electionpb, v3lockpb};

use tonic::service::Routes;

use crate::Door;
use election::ElectionService;
use lease::LeaseService;
use leases::Leases;
use lock::LockService;

/// Adds the services. Their leases are those of this coordinator.
pub fn add(routes: Routes, door: &Door, message_bytes_max: usize) -> Routes {
    let (door, leases) = (door.clone(), Leases::default());
    let lease = LeaseService::new(door.clone(), leases.clone());
    let lock = LockService::new(door.clone(), leases.clone());
    let election = ElectionService::new(door, leases);
    let (lease, lock, election) = (
        etcdserverpb::lease_server::LeaseServer::new(lease),
        v3lockpb::lock_server::LockServer::new(lock),
        v3electionpb::election_server::ElectionServer::new(election),
    );
    routes
        .add_service(lease.max_decoding_message_size(message_bytes_max))
        .add_service(lock.max_decoding_message_size(message_bytes_max))
        .add_service(election.max_decoding_message_size(message_bytes_max))
}
