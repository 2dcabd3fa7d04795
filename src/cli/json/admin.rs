//! What is others', in the API's JSON mapping.

use lockkeeper_api::pb::{
    ForceReleaseResponse, LockMode, LockSummary, LostReason, NameKind, SessionPhase,
    SessionSummary, WatchDelta, WatchEvent,
};
use serde_json::{Map, Value, json};

use super::{holder, insert_duration};

pub(crate) fn lock(lock: &LockSummary) -> Value {
    let mut fields = of(json!({
        "name": lock.name,
        "kind": NameKind::as_str_name(&lock.kind()),
        "mode": LockMode::as_str_name(&lock.mode()),
        "holders": lock.holders.iter().map(holder).collect::<Vec<_>>(),
        "holderCount": lock.holder_count,
        "lastFencingToken": lock.last_fencing_token.to_string(),
        "waiterCount": lock.waiter_count,
        "totalPermits": lock.total_permits,
        "availablePermits": lock.available_permits.to_string(),
        "count": lock.count,
    }));
    insert_duration(&mut fields, "remainingLease", lock.remaining_lease.as_ref());
    fields.into()
}

pub(crate) fn session(session: &SessionSummary) -> Value {
    let mut fields = of(json!({
        "sessionDigest": session.session_digest,
        "clientName": session.client_name,
        "identity": session.identity,
        "peerAddress": session.peer_address,
        "phase": SessionPhase::as_str_name(&session.phase()),
        "grantCount": session.grant_count,
        "waitCount": session.wait_count,
    }));
    insert_duration(&mut fields, "age", session.age.as_ref());
    insert_duration(&mut fields, "lease", session.lease.as_ref());
    let left = session.resumable_for.as_ref();
    insert_duration(&mut fields, "resumableFor", left);
    fields.into()
}

pub(crate) fn event(event: &WatchDelta) -> Value {
    json!({
        "event": WatchEvent::as_str_name(&event.event()),
        "name": event.name,
        "kind": NameKind::as_str_name(&event.kind()),
        "mode": LockMode::as_str_name(&event.mode()),
        "sessionDigest": event.session_digest,
        "owner": event.owner,
        "clientName": event.client_name,
        "fencingToken": event.fencing_token.to_string(),
        "holdCount": event.hold_count,
        "reason": LostReason::as_str_name(&event.reason()),
        "detail": event.detail,
    })
}

pub(crate) fn forced(answer: &ForceReleaseResponse) -> Value {
    json!({
        "released": answer.released,
        "holders": answer.holders.iter().map(holder).collect::<Vec<_>>(),
        "holderCount": answer.holder_count,
    })
}

fn of(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
