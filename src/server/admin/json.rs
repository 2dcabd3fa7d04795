//! Locks and sessions as JSON. Durations are milliseconds; tokens are strings, because they exceed
//! a browser's numbers.

use std::time::Duration;

use lockkeeper_coordinator::{
    Coordinator, Description, Event, HolderSeen, LockSeen, LostReason, Mode, NameKind, Note, Owner,
    PermitHolderSeen, SessionId, SessionSeen, WaiterSeen, Watched, What,
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// An entry of a list: a name, its kind and its holders.
pub(super) fn listed_lock(seen: LockSeen) -> Value {
    match seen {
        LockSeen::Lock(kind, seen) => {
            let mut lock = described(&seen);
            lock["kind"] = kind_name(kind).into();
            lock
        }
        LockSeen::Semaphore(seen) => json!({
            "name": seen.name.public(),
            "kind": kind_name(NameKind::Semaphore),
            "totalPermits": seen.total,
            "availablePermits": seen.available,
            "holders": seen.holders.iter().map(permit_holder).collect::<Vec<_>>(),
            "holderCount": seen.holder_count,
            "waiterCount": seen.waiter_count,
        }),
        LockSeen::Latch(seen) => json!({
            "name": seen.name.public(),
            "kind": kind_name(NameKind::Latch),
            "count": seen.count,
            "remainingLeaseMs": seen.remaining.map(millis),
            "waiterCount": seen.waiter_count,
        }),
    }
}

pub(super) fn described(seen: &Description) -> Value {
    json!({
        "name": seen.name.public(),
        "mode": seen.mode.map(Mode::name),
        "holders": seen.holders.iter().map(holder).collect::<Vec<_>>(),
        "holderCount": seen.holder_count,
        "remainingLeaseMs": seen.remaining.map(millis),
        "lastFencingToken": seen.fencing_token.to_string(),
        "waiters": seen.waiters.iter().map(waiter).collect::<Vec<_>>(),
        "waiterCount": seen.waiter_count,
    })
}

pub(super) fn listed_session(seen: &SessionSeen) -> Value {
    let left = |until: Instant| millis(until.saturating_duration_since(Instant::now()));
    json!({
        "sessionDigest": seen.digest,
        "clientName": seen.client_name,
        "identity": seen.identity,
        "peerAddress": seen.peer.map(|it| it.to_string()),
        "phase": if seen.detached_until.is_some() { "detached" } else { "live" },
        "ageMs": millis(seen.since.elapsed()),
        "leaseMs": millis(seen.lease),
        "grantCount": seen.grants,
        "waitCount": seen.waits,
        "resumableForMs": seen.detached_until.map(left),
    })
}

/// The name and data of a watcher's event.
pub(super) fn watched(coordinator: &Coordinator, told: &Watched) -> (&'static str, Value) {
    match told {
        Watched::Delta(event) => ("delta", delta(coordinator, event)),
        Watched::Snapshot {
            first,
            last,
            entries,
        } => {
            let entries: Vec<_> = entries.iter().map(|it| delta(coordinator, it)).collect();
            let data = json!({ "first": first, "last": last, "entries": entries });
            ("snapshot", data)
        }
    }
}

fn delta(coordinator: &Coordinator, event: &Event) -> Value {
    let (what, lost) = match &event.what {
        What::Granted => ("granted", None),
        What::Released => ("released", None),
        What::Lost(reason) => ("lost", Some(reason)),
        What::WaitBegan => ("waitBegan", None),
        What::WaitEnded => ("waitEnded", None),
        What::Abandoned => ("abandoned", None),
        What::Deadlock => ("deadlock", None),
    };
    json!({
        "event": what,
        "name": event.name.public(),
        "kind": kind_name(event.kind),
        "mode": event.mode.map(Mode::name),
        "sessionDigest": digest(&event.owner),
        "owner": event.owner.label.as_ref(),
        "clientName": coordinator.client_name(&event.owner),
        "fencingToken": event.fencing_token.to_string(),
        "holdCount": event.holds,
        "reason": lost.map(LostReason::name),
        "detail": lost.and_then(LostReason::detail),
        "note": event.note.as_deref().map(note),
    })
}

fn holder(seen: &HolderSeen) -> Value {
    json!({
        "sessionDigest": digest(&seen.owner),
        "owner": seen.owner.label.as_ref(),
        "clientName": seen.client_name,
        "mode": seen.mode.name(),
        "holdCount": seen.hold_count,
        "remainingLeaseMs": seen.remaining.map(millis),
        "note": seen.note.as_deref().map(note),
    })
}

fn note(note: &Note) -> Value {
    json!({ "reason": note.reason, "labels": note.labels })
}

fn permit_holder(seen: &PermitHolderSeen) -> Value {
    json!({
        "sessionDigest": seen.owner.as_ref().and_then(digest),
        "owner": seen.owner.as_ref().map_or("", |owner| owner.label.as_ref()),
        "clientName": seen.client_name,
        "holdCount": seen.permits,
        "remainingLeaseMs": seen.remaining.map(millis),
    })
}

fn waiter(seen: &WaiterSeen) -> Value {
    json!({
        "sessionDigest": digest(&seen.owner),
        "owner": seen.owner.label.as_ref(),
        "clientName": seen.client_name,
        "mode": seen.mode.name(),
        "waitingForMs": seen.since.map(|since| millis(since.elapsed())),
    })
}

fn digest(owner: &Owner) -> Option<String> {
    owner.session.as_ref().map(SessionId::digest)
}

fn kind_name(kind: NameKind) -> &'static str {
    match kind {
        NameKind::Lock => "lock",
        NameKind::ReadWriteLock => "readWriteLock",
        NameKind::Semaphore => "semaphore",
        NameKind::Latch => "latch",
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
