//! The codes and texts of statuses by which etcd's clients know an error. Details are as elsewhere.

use lockkeeper_coordinator::{Error, Invalid, Ownership};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::Door;

/// The status of an error; a session is a lease here.
pub(super) fn refused(door: &Door, error: &Error) -> Status {
    match error {
        Error::SessionNotFound
        | Error::SessionDetached
        | Error::SessionEndedByForce(_)
        | Error::SessionSuperseded => no_lease(door),
        error => (door.status)(error),
    }
}

/// The caller has no such lease: it ended, was never granted, or is another coordinator's.
pub(super) fn no_lease(door: &Door) -> Status {
    let status = (door.status)(&Error::SessionNotFound);
    saying(
        &status,
        Code::NotFound,
        "etcdserver: requested lease not found",
    )
}

/// The caller chose the id of a lease that it has.
pub(super) fn lease_exists(door: &Door) -> Status {
    let invalid = Invalid::new("ID", "is that of another lease");
    let (status, text) = (
        (door.status)(&invalid.into()),
        "etcdserver: lease already exists",
    );
    saying(&status, Code::FailedPrecondition, text)
}

/// The caller asked for a lease that is longer than any may be.
pub(super) fn ttl_too_large(door: &Door, invalid: Invalid) -> Status {
    let status = (door.status)(&invalid.into());
    saying(&status, Code::OutOfRange, "etcdserver: too large lease TTL")
}

/// The caller is not the leader by this key.
pub(super) fn not_leader(door: &Door, ownership: Ownership) -> Status {
    let status = (door.status)(&Error::NotOwner(ownership));
    saying(&status, status.code(), "election: not leader")
}

pub(super) fn no_leader(door: &Door) -> Status {
    let status = (door.status)(&Error::NotOwner(Ownership::NeverHeld));
    saying(&status, status.code(), "election: no leader")
}

/// The same status with another code and text. Both are in the details, too, and some clients read
/// them there.
fn saying(status: &Status, code: Code, text: &str) -> Status {
    Status::with_error_details(code, text, status.get_error_details())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use prost::Message as _;
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn the_details_have_the_code_and_the_text_of_the_status() {
        let details = HashMap::from([("field".to_owned(), "ID".to_owned())]);
        let mut details = ErrorDetails::with_error_info("INVALID_ID", "lockkeeper", details);
        details.add_bad_request_violation("ID", "is that of another lease");
        let status = Status::with_error_details(Code::InvalidArgument, "ID: is", details.clone());
        let text = "etcdserver: lease already exists";
        let said = saying(&status, Code::FailedPrecondition, text);
        let inner = tonic_types::Status::decode(said.details()).unwrap();
        assert_eq!(
            (said.code(), said.message()),
            (Code::FailedPrecondition, text)
        );
        assert_eq!(
            (Code::from(inner.code), inner.message.as_str()),
            (said.code(), text)
        );
        let info = said.get_error_details().error_info().cloned().unwrap();
        assert_eq!(
            (info.reason.as_str(), &*info.metadata["field"]),
            ("INVALID_ID", "ID")
        );
        assert_eq!(inner.details.len(), 2);
    }
}
