//! Messages and times of the scripted coordinators.

use std::{collections::HashMap, time::Duration};

use lockkeeper_api::pb::Grant;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The lease of scripted sessions, and what follows from it.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
pub(crate) const PING_INTERVAL: Duration = Duration::from_millis(500);
pub(crate) const RENEW_INTERVAL: Duration = Duration::from_millis(900);

/// How late anything may be on a machine that is not starved.
pub(crate) const TOLERANCE: Duration = Duration::from_millis(300);

/// The longest frame of an operation, unless a coordinator names less.
pub(crate) const FRAME_MAX: usize = 1 << 20;

/// A token that a double cannot hold.
pub(crate) const TOKEN: u64 = (1 << 53) + 1;

pub(crate) const SESSION_ID: &str = "01234567-89ab-cdef-0123-456789abcdef";
pub(crate) const RESUME_TOKEN: &[u8] = b"resume-token";

/// A grant with only what identifies it.
pub(crate) fn named(name: &str, owner: &str, mode: i32) -> Grant {
    Grant {
        name: name.to_owned(),
        owner: owner.to_owned(),
        mode,
        ..Grant::default()
    }
}

pub(crate) fn proto(duration: Duration) -> Option<prost_types::Duration> {
    duration.try_into().ok()
}

/// A status as the coordinator makes it; it asks for a retry after 100 ms.
pub(crate) fn status(code: Code, reason: &str) -> Status {
    let mut details = ErrorDetails::with_error_info(reason, "lockkeeper", HashMap::new());
    details.set_retry_info(Some(Duration::from_millis(100)));
    Status::with_error_details(code, format!("scripted: {reason}"), details)
}

pub(crate) fn frame_of(status: &Status) -> tonic_types::Status {
    let details = prost::Message::decode(status.details());
    details.unwrap_or_else(|_| tonic_types::Status {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: Vec::new(),
    })
}
