//! What other coordinators have answered, as the same JSON as what is known here.

use lockkeeper_api::pb::{CoordinatorSummary, SessionPhase, SessionSummary, UnaskedCoordinator};
use prost_types::Duration;
use serde_json::{Value, json};

use super::json::millis;

pub(crate) fn session(seen: &SessionSummary) -> Value {
    let address = Some(&seen.peer_address).filter(|address| !address.is_empty());
    json!({
        "sessionDigest": seen.session_digest,
        "clientName": seen.client_name,
        "identity": seen.identity,
        "peerAddress": address,
        "phase": if seen.phase() == SessionPhase::Detached { "detached" } else { "live" },
        "ageMs": millis_of(seen.age.as_ref()),
        "leaseMs": millis_of(seen.lease.as_ref()),
        "grantCount": seen.grant_count,
        "waitCount": seen.wait_count,
        "resumableForMs": millis_of(seen.resumable_for.as_ref()),
        "coordinator": seen.coordinator,
    })
}

pub(crate) fn coordinator(seen: &CoordinatorSummary) -> Value {
    json!({
        "coordinator": seen.coordinator,
        "version": seen.version,
        "upForMs": millis_of(seen.up_for.as_ref()),
        "isReady": seen.not_ready_reason.is_empty(),
        "notReadyReason": seen.not_ready_reason,
        "sessions": seen.session_count,
        "waiters": seen.waiter_count,
    })
}

pub(crate) fn unasked(coordinator: &UnaskedCoordinator) -> Value {
    json!({
        "coordinator": coordinator.coordinator,
        "version": coordinator.version,
        "reason": coordinator.reason,
    })
}

fn millis_of(duration: Option<&Duration>) -> Option<u64> {
    let duration = std::time::Duration::try_from(*duration?).ok()?;
    Some(millis(duration))
}
