//! Locks and sessions as JSON. Durations are milliseconds; tokens are strings, because they exceed
//! a browser's numbers.

use std::time::Duration;

use lockkeeper_coordinator::{
    Coordinator, Description, Event, HolderSeen, LatchDescription, LockSeen, LostReason, Mode,
    NameKind, Note, Owner, PermitHolderSeen, PermitWaiterSeen, SemaphoreDescription, SessionId,
    SessionSeen, Standing, WaiterSeen, Watched, What,
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// An entry of a list: a name, its kind and its holders.
pub(crate) fn listed_lock(seen: LockSeen) -> Value {
    match seen {
        LockSeen::Lock(kind, seen) => {
            let mut lock = described(&seen);
            lock["kind"] = kind_name(kind).into();
            lock
        }
        LockSeen::Semaphore(seen) => {
            let mut semaphore = described_semaphore(&seen);
            semaphore["kind"] = kind_name(NameKind::Semaphore).into();
            semaphore
        }
        LockSeen::Latch(seen) => {
            let mut latch = described_latch(&seen);
            latch["kind"] = kind_name(NameKind::Latch).into();
            latch
        }
    }
}

pub(crate) fn described_semaphore(seen: &SemaphoreDescription) -> Value {
    json!({
        "name": seen.name.public(),
        "totalPermits": seen.total,
        "availablePermits": seen.available,
        "holders": seen.holders.iter().map(permit_holder).collect::<Vec<_>>(),
        "holderCount": seen.holder_count,
        "waiters": seen.waiters.iter().map(permit_waiter).collect::<Vec<_>>(),
        "waiterCount": seen.waiter_count,
    })
}

pub(crate) fn described_latch(seen: &LatchDescription) -> Value {
    json!({
        "name": seen.name.public(),
        "count": seen.count,
        "remainingLeaseMs": seen.remaining.map(millis),
        "waiterCount": seen.waiter_count,
    })
}

pub(crate) fn described(seen: &Description) -> Value {
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

pub(crate) fn listed_session(seen: &SessionSeen) -> Value {
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
        "atRisk": seen.at_risk,
    })
}

/// A session of a coordinator, with what it holds and waits for; null if it is not there.
pub(crate) fn session(coordinator: &Coordinator, digest: &str) -> Value {
    let Some(session) = coordinator.session(digest) else {
        return Value::Null;
    };
    let mut shown = listed_session(&session.seen);
    shown["holdings"] = session.holdings.iter().map(standing).collect();
    shown["waits"] = session.waits.iter().map(standing).collect();
    shown
}

/// A holding or a wait of a session.
pub(crate) fn standing(seen: &Standing) -> Value {
    let mut shown = event(&seen.event, "");
    shown["sinceMs"] = millis(seen.since.elapsed()).into();
    shown["validForMs"] = seen.valid_until.map(left).into();
    shown
}

/// The name and data of a watcher's event.
pub(crate) fn watched(coordinator: &Coordinator, told: &Watched) -> (&'static str, Value) {
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

fn delta(coordinator: &Coordinator, told: &Event) -> Value {
    event(told, &coordinator.client_name(&told.owner))
}

/// An event of an owner whose session has this client name.
pub(crate) fn event(event: &Event, client_name: &str) -> Value {
    let lost = match &event.what {
        What::Lost(reason) => Some(reason),
        _ => None,
    };
    json!({
        "event": what_name(&event.what),
        "name": event.name.public(),
        "kind": kind_name(event.kind),
        "mode": event.mode.map(Mode::name),
        "sessionDigest": digest(&event.owner),
        "owner": event.owner.label.as_ref(),
        "clientName": client_name,
        "fencingToken": event.fencing_token.to_string(),
        "holdCount": event.holds,
        "reason": lost.map(LostReason::name),
        "detail": lost.and_then(LostReason::detail),
        "note": event.note.as_deref().map(note),
    })
}

/// The names of all events.
pub(super) const EVENT_NAMES: [&str; 7] = [
    "granted",
    "released",
    "lost",
    "waitBegan",
    "waitEnded",
    "abandoned",
    "deadlock",
];

/// The names of all kinds.
pub(super) const KIND_NAMES: [&str; 4] = ["lock", "readWriteLock", "semaphore", "latch"];

pub(crate) fn what_name(what: &What) -> &'static str {
    match what {
        What::Granted => "granted",
        What::Released => "released",
        What::Lost(_) => "lost",
        What::WaitBegan => "waitBegan",
        What::WaitEnded => "waitEnded",
        What::Abandoned => "abandoned",
        What::Deadlock => "deadlock",
    }
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
        "heldForMs": seen.since.map(|since| millis(since.elapsed())),
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
        "heldForMs": seen.since.map(|since| millis(since.elapsed())),
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

fn permit_waiter(seen: &PermitWaiterSeen) -> Value {
    json!({
        "sessionDigest": digest(&seen.owner),
        "owner": seen.owner.label.as_ref(),
        "clientName": seen.client_name,
        "waitingForMs": millis(seen.since.elapsed()),
    })
}

pub(crate) fn digest(owner: &Owner) -> Option<String> {
    owner.session.as_ref().map(SessionId::digest)
}

pub(crate) fn kind_name(kind: NameKind) -> &'static str {
    match kind {
        NameKind::Lock => "lock",
        NameKind::ReadWriteLock => "readWriteLock",
        NameKind::Semaphore => "semaphore",
        NameKind::Latch => "latch",
    }
}

fn left(until: Instant) -> u64 {
    millis(until.saturating_duration_since(Instant::now()))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
