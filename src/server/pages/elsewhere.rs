//! What other coordinators have answered, as the same JSON as what is known here.

use lockkeeper_api::pb::{
    LockMode, SessionPhase, SessionSummary, UnaskedCoordinator, WatchDelta, WatchEvent,
    WatchSnapshot, watch_response,
};
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

pub(crate) fn unasked(coordinator: &UnaskedCoordinator) -> Value {
    json!({
        "coordinator": coordinator.coordinator,
        "version": coordinator.version,
        "reason": coordinator.reason,
    })
}

/// The name and data of an event of another coordinator.
pub(crate) fn watched(event: &watch_response::Event) -> (&'static str, Value) {
    match event {
        watch_response::Event::Delta(it) => ("delta", delta(it)),
        watch_response::Event::Unasked(it) => ("unasked", unasked(it)),
        watch_response::Event::Snapshot(WatchSnapshot {
            first,
            last,
            entries,
            coordinator,
        }) => {
            let entries: Vec<_> = entries.iter().map(delta).collect();
            let data = json!({ "first": first, "last": last, "entries": entries,
                "coordinator": coordinator });
            ("snapshot", data)
        }
    }
}

fn delta(seen: &WatchDelta) -> Value {
    let known = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let is_lost = seen.event() == WatchEvent::Lost;
    let reason = seen.reason().as_str_name();
    let reason = reason.trim_start_matches("LOST_REASON_");
    let mode = Some(seen.mode()).filter(|mode| *mode != LockMode::Unspecified);
    json!({
        "event": camel_case(seen.event().as_str_name(), "WATCH_EVENT_"),
        "name": seen.name,
        "kind": camel_case(seen.kind().as_str_name(), "NAME_KIND_"),
        "mode": mode.map(|mode| camel_case(mode.as_str_name(), "LOCK_MODE_")),
        "sessionDigest": known(&seen.session_digest),
        "owner": seen.owner,
        "clientName": seen.client_name,
        "fencingToken": seen.fencing_token.to_string(),
        "holdCount": seen.hold_count,
        "reason": is_lost.then_some(reason),
        "detail": known(&seen.detail),
        "note": seen.note.as_ref().map(|it| json!({ "reason": it.reason, "labels": it.labels })),
        "coordinator": seen.coordinator,
    })
}

/// `waitBegan` of `WATCH_EVENT_WAIT_BEGAN`.
fn camel_case(name: &str, prefix: &str) -> String {
    let words = name.trim_start_matches(prefix).split('_').enumerate();
    let words = words.map(|(at, word)| {
        let head = if at == 0 { 0 } else { word.len().min(1) };
        [&word[..head], &word[head..].to_ascii_lowercase()].concat()
    });
    words.collect()
}

fn millis_of(duration: Option<&Duration>) -> Option<u64> {
    let duration = std::time::Duration::try_from(*duration?).ok()?;
    Some(millis(duration))
}

#[cfg(test)]
mod tests {
    use lockkeeper_coordinator::{Mode, NameKind, What};

    use super::*;
    use crate::pages::json::{kind_name, what_name};

    #[test]
    fn what_another_coordinator_says_has_the_names_of_what_is_said_here() {
        let event = |it: WatchEvent| camel_case(it.as_str_name(), "WATCH_EVENT_");
        assert_eq!(event(WatchEvent::WaitBegan), what_name(&What::WaitBegan));
        assert_eq!(event(WatchEvent::Granted), what_name(&What::Granted));
        let kind = pb_kind(lockkeeper_api::pb::NameKind::ReadWriteLock);
        assert_eq!(kind, kind_name(NameKind::ReadWriteLock));
        let seen = WatchDelta {
            mode: LockMode::Fair.into(),
            reason: lockkeeper_api::pb::LostReason::TakenOver.into(),
            ..WatchDelta::default()
        };
        let shown = delta(&seen);
        assert_eq!(shown["mode"], Mode::Fair.name());
        assert_eq!(
            (&shown["reason"], &shown["sessionDigest"]),
            (&Value::Null, &Value::Null)
        );
        let lost = WatchDelta {
            event: WatchEvent::Lost.into(),
            ..seen
        };
        assert_eq!(delta(&lost)["reason"], "TAKEN_OVER");
    }

    fn pb_kind(kind: lockkeeper_api::pb::NameKind) -> String {
        camel_case(kind.as_str_name(), "NAME_KIND_")
    }
}
