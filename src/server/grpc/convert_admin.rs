//! Converts between proto and domain: locks, sessions and events of other callers.

use lockkeeper_access::Identity;
use lockkeeper_coordinator::{
    Contended, ContendedName, Coordinator, Event, Invalid, LockSeen, LostReason, NameKind,
    SessionSeen, SessionsOf, Watched, What,
};
use tokio::time::Instant;

use super::{
    convert::{self, count, digest, holder, proto_lost_reason, proto_mode, whole_millis},
    convert_note, convert_permits, pb,
    viewer::Viewer,
};

/// The sessions that a request to end some means.
pub(super) fn sessions_of(request: &pb::EndSessionRequest) -> Result<SessionsOf, Invalid> {
    match (request.session_digest.as_str(), request.identity.as_str()) {
        ("", "") => {
            let why = "must be set, or else identity";
            Err(Invalid::new("session_digest", why))
        }
        ("", Identity::ANONYMOUS) => Ok(SessionsOf::Identity(String::new())),
        ("", identity) => Ok(SessionsOf::Identity(identity.to_owned())),
        (digest, "") => Ok(SessionsOf::Digest(digest.to_owned())),
        _ => {
            let why = "must not be set together with session_digest";
            Err(Invalid::new("identity", why))
        }
    }
}

pub(super) fn listed_lock(seen: LockSeen, viewer: &Viewer) -> pb::LockSummary {
    match seen {
        LockSeen::Lock(kind, seen) => pb::LockSummary {
            name: seen.name.public().to_owned(),
            kind: proto_kind(kind).into(),
            mode: seen
                .mode
                .map_or(pb::LockMode::Unspecified, proto_mode)
                .into(),
            holder_count: count(seen.holder_count),
            holders: seen
                .holders
                .into_iter()
                .map(|seen| holder(seen, viewer))
                .collect(),
            remaining_lease: seen.remaining.map(whole_millis),
            last_fencing_token: seen.fencing_token,
            waiter_count: count(seen.waiter_count),
            ..pb::LockSummary::default()
        },
        LockSeen::Semaphore(seen) => {
            let seen = convert_permits::described(seen, viewer);
            let holders = seen.holders.into_iter().map(|holder| pb::Holder {
                session_digest: holder.session_digest,
                owner: holder.owner,
                hold_count: holder.permits,
                client_name: holder.client_name,
                mode: pb::LockMode::Unspecified.into(),
                remaining_lease: holder.remaining_lease,
                note: None,
                held_for: None,
            });
            pb::LockSummary {
                name: seen.name,
                kind: pb::NameKind::Semaphore.into(),
                holders: holders.collect(),
                holder_count: seen.holder_count,
                waiter_count: seen.waiter_count,
                total_permits: seen.total,
                available_permits: seen.available,
                ..pb::LockSummary::default()
            }
        }
        LockSeen::Latch(seen) => pb::LockSummary {
            name: seen.name.public().to_owned(),
            kind: pb::NameKind::Latch.into(),
            remaining_lease: seen.remaining.map(whole_millis),
            waiter_count: count(seen.waiter_count),
            count: seen.count,
            ..pb::LockSummary::default()
        },
    }
}

pub(super) fn listed_session(seen: SessionSeen) -> pb::SessionSummary {
    let phase = match seen.detached_until {
        None => pb::SessionPhase::Live,
        Some(_) => pb::SessionPhase::Detached,
    };
    let left = |until: Instant| until.saturating_duration_since(Instant::now());
    pb::SessionSummary {
        session_digest: seen.digest,
        client_name: seen.client_name,
        identity: seen.identity,
        phase: phase.into(),
        age: Some(whole_millis(seen.since.elapsed())),
        lease: Some(whole_millis(seen.lease)),
        grant_count: count(seen.grants),
        wait_count: count(seen.waits),
        resumable_for: seen.detached_until.map(left).map(whole_millis),
        peer_address: seen.peer.map(|it| it.to_string()).unwrap_or_default(),
        coordinator: String::new(),
    }
}

pub(super) fn watched(
    coordinator: &Coordinator,
    viewer: &Viewer,
    item: Watched,
) -> pb::WatchResponse {
    use pb::watch_response::Event;
    let event = match item {
        Watched::Delta(event) => Event::Delta(delta(coordinator, viewer, &event)),
        Watched::Snapshot {
            first,
            last,
            entries,
        } => Event::Snapshot(pb::WatchSnapshot {
            first,
            last,
            entries: entries
                .iter()
                .map(|it| delta(coordinator, viewer, it))
                .collect(),
            coordinator: String::new(),
        }),
    };
    pb::WatchResponse { event: Some(event) }
}

fn delta(coordinator: &Coordinator, viewer: &Viewer, event: &Event) -> pb::WatchDelta {
    let (what, lost): (_, Option<&LostReason>) = match &event.what {
        What::Granted => (pb::WatchEvent::Granted, None),
        What::Released => (pb::WatchEvent::Released, None),
        What::Lost(reason) => (pb::WatchEvent::Lost, Some(reason)),
        What::WaitBegan => (pb::WatchEvent::WaitBegan, None),
        What::WaitEnded => (pb::WatchEvent::WaitEnded, None),
        What::Abandoned => (pb::WatchEvent::Abandoned, None),
        What::Deadlock => (pb::WatchEvent::Deadlock, None),
    };
    pb::WatchDelta {
        event: what.into(),
        name: event.name.public().to_owned(),
        kind: proto_kind(event.kind).into(),
        mode: event
            .mode
            .map_or(pb::LockMode::Unspecified, convert::proto_mode)
            .into(),
        session_digest: digest(&event.owner),
        owner: viewer.owner(&event.owner),
        client_name: coordinator.client_name(&event.owner),
        fencing_token: event.fencing_token,
        hold_count: event.holds,
        reason: lost
            .map_or(pb::LostReason::Unspecified, proto_lost_reason)
            .into(),
        detail: lost
            .and_then(LostReason::detail)
            .unwrap_or_default()
            .to_owned(),
        note: event.note.as_deref().map(convert_note::proto),
        coordinator: String::new(),
    }
}

pub(super) fn proto_kind(kind: NameKind) -> pb::NameKind {
    match kind {
        NameKind::Lock => pb::NameKind::Lock,
        NameKind::ReadWriteLock => pb::NameKind::ReadWriteLock,
        NameKind::Semaphore => pb::NameKind::Semaphore,
        NameKind::Latch => pb::NameKind::Latch,
    }
}

pub(super) fn contended_name(seen: ContendedName, waiting: &[Contended]) -> pb::ContendedName {
    let now = waiting.iter().filter(|now| now.name == seen.name);
    let waiters: usize = now.map(|now| now.waiters).sum();
    let holders = seen.clients.into_iter();
    let holders = holders.map(|(client_name, hold_count, held)| pb::ContendedHolder {
        client_name,
        hold_count,
        held: Some(whole_millis(held)),
    });
    pb::ContendedName {
        name: seen.name.public().to_owned(),
        counted_for: Some(whole_millis(seen.since.elapsed())),
        wait_count: seen.wait_count,
        waited: Some(whole_millis(seen.waited)),
        refusal_count: seen.refusal_count,
        hold_count: seen.hold_count,
        held: Some(whole_millis(seen.held)),
        holders: holders.collect(),
        waiter_count: count(waiters),
    }
}
