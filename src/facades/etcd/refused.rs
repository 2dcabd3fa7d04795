//! The texts of statuses by which etcd's clients know an error. Code and details are as elsewhere.

use lockkeeper_coordinator::{Error, Invalid, Ownership};
use tonic::Status;

use crate::Door;

/// The status of an error; a session is a lease here.
pub(super) fn refused(door: &Door, error: &Error) -> Status {
    match error {
        Error::SessionNotFound | Error::SessionDetached => no_lease(door),
        error => (door.status)(error),
    }
}

/// The caller has no such lease: it ended, was never granted, or is another coordinator's.
pub(super) fn no_lease(door: &Door) -> Status {
    let text = "etcdserver: requested lease not found";
    saying(door, &Error::SessionNotFound, text)
}

/// The caller chose the id of a lease that it has.
pub(super) fn lease_exists(door: &Door) -> Status {
    let invalid = Invalid::new("ID", "is that of another lease");
    saying(door, &invalid.into(), "etcdserver: lease already exists")
}

/// The caller is not the leader by this key.
pub(super) fn not_leader(door: &Door, ownership: Ownership) -> Status {
    saying(door, &Error::NotOwner(ownership), "election: not leader")
}

pub(super) fn no_leader(door: &Door) -> Status {
    let nobody = Error::NotOwner(Ownership::NeverHeld);
    saying(door, &nobody, "election: no leader")
}

fn saying(door: &Door, error: &Error, text: &str) -> Status {
    let status = (door.status)(error);
    Status::with_details(status.code(), text, status.details().to_vec().into())
}
