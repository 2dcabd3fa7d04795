//! Locks held by other callers, sessions and events in words.

use std::{fmt::Write as _, time::Duration};

use lockkeeper_api::pb::{
    CoordinatorSummary, EndSessionResponse, ForceReleaseResponse, LockMode, LockSummary,
    LostReason, NameKind, SessionPhase, SessionSummary, WatchDelta, WatchEvent,
};

use super::{
    lock::{holder_line, note_words},
    table::table,
    words::{duration, mode, shown},
};

/// A row for each name.
pub(crate) fn locks(locks: &[LockSummary]) -> String {
    let heads = [
        "NAME",
        "KIND",
        "STATE",
        "OWNER",
        "CLIENT",
        "REASON",
        "WAITERS",
        "HELD",
        "LEASE LEFT",
    ];
    table(heads, locks.iter().map(row))
}

fn row(lock: &LockSummary) -> [String; 9] {
    let is_held = lock.holder_count > 0;
    let (kind, state) = match lock.kind() {
        NameKind::Semaphore => {
            let (free, total) = (lock.available_permits, lock.total_permits);
            ("semaphore", format!("{free} of {total} free"))
        }
        NameKind::Latch => ("latch", format!("count {}", lock.count)),
        NameKind::Lock | NameKind::ReadWriteLock | NameKind::Unspecified if !is_held => {
            ("", "free".to_owned())
        }
        NameKind::Lock | NameKind::ReadWriteLock | NameKind::Unspecified => {
            let holders = match lock.holder_count {
                1 => "held".to_owned(),
                several => format!("held by {several}"),
            };
            (mode(lock.mode()), holders)
        }
    };
    let first = lock.holders.first();
    let note = first.and_then(|holder| holder.note.as_ref());
    let lease = lock.remaining_lease.as_ref();
    [
        shown(&lock.name).into_owned(),
        kind.to_owned(),
        state,
        first.map_or_else(String::new, |it| shown(&it.owner).into_owned()),
        first.map_or_else(String::new, |it| shown(&it.client_name).into_owned()),
        note.map_or_else(String::new, |it| shown(&it.reason).into_owned()),
        lock.waiter_count.to_string(),
        held_for(lock).map_or_else(String::new, |held| {
            let whole = Duration::from_secs(held.as_secs());
            duration(prost_types::Duration::try_from(whole).ok().as_ref())
        }),
        lease.map_or_else(String::new, |lease| duration(Some(lease))),
    ]
}

/// For how long it has been held by the holder that has held it longest. None if that is not known.
pub(crate) fn held_for(lock: &LockSummary) -> Option<Duration> {
    let holders = lock.holders.iter();
    let known = holders.filter_map(|it| Duration::try_from(it.held_for?).ok());
    known.max()
}

pub(crate) fn coordinator(coordinator: &CoordinatorSummary) -> String {
    let ready = match coordinator.not_ready_reason.as_str() {
        "" => "ready".to_owned(),
        why => format!("not ready ({why})"),
    };
    format!(
        "{} {ready} version={} up_for={} sessions={} waiters={}",
        coordinator.coordinator,
        coordinator.version,
        duration(coordinator.up_for.as_ref()),
        coordinator.session_count,
        coordinator.waiter_count
    )
}

pub(crate) fn session(session: &SessionSummary) -> String {
    let phase = match session.phase() {
        SessionPhase::Live => "live".to_owned(),
        SessionPhase::Detached => {
            let left = duration(session.resumable_for.as_ref());
            format!("detached resumable_for={left}")
        }
        SessionPhase::Unspecified => "?".to_owned(),
    };
    let coordinator = of_coordinator(&session.coordinator);
    format!(
        "{} {phase} client_name={} identity={} peer_address={} age={} lease={} grants={} \
         waits={}{coordinator}",
        session.session_digest,
        shown(&session.client_name),
        shown(&session.identity),
        session.peer_address,
        duration(session.age.as_ref()),
        duration(session.lease.as_ref()),
        session.grant_count,
        session.wait_count
    )
}

/// Where it is, if all coordinators were asked.
fn of_coordinator(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!(" coordinator={name}"),
    }
}

pub(crate) fn sessions_ended(answer: &EndSessionResponse) -> String {
    let EndSessionResponse {
        session_count,
        grant_count,
        ..
    } = answer;
    format!("ended sessions={session_count} grants={grant_count}")
}

pub(crate) fn event(event: &WatchDelta) -> String {
    let what = match event.event() {
        WatchEvent::Granted => "granted",
        WatchEvent::Released => "released",
        WatchEvent::Lost => "lost",
        WatchEvent::WaitBegan => "wait began",
        WatchEvent::WaitEnded => "wait ended",
        WatchEvent::Abandoned => "abandoned",
        WatchEvent::Deadlock => "deadlock of",
        WatchEvent::Unspecified => "?",
    };
    let mut parts = vec![format!("{what} {}", event.name)];
    if event.mode() != LockMode::Unspecified {
        parts.push(format!("mode={}", mode(event.mode())));
    }
    parts.push(format!(
        "owner={} session_digest={} client_name={}",
        shown(&event.owner),
        event.session_digest,
        shown(&event.client_name)
    ));
    match event.event() {
        WatchEvent::Lost => {
            let reason = LostReason::as_str_name(&event.reason());
            parts.push(format!("reason={reason} detail={:?}", event.detail));
        }
        WatchEvent::Granted | WatchEvent::Released => {
            let (holds, token) = (event.hold_count, event.fencing_token);
            parts.push(format!("hold_count={holds} fencing_token={token}"));
        }
        WatchEvent::WaitBegan
        | WatchEvent::WaitEnded
        | WatchEvent::Abandoned
        | WatchEvent::Deadlock
        | WatchEvent::Unspecified => {}
    }
    let coordinator = of_coordinator(&event.coordinator);
    let note = note_words(event.note.as_ref());
    format!("{}{coordinator}{note}", parts.join(" "))
}

pub(crate) fn forced(name: &str, answer: &ForceReleaseResponse) -> String {
    if !answer.released {
        return format!("nobody holds {name}");
    }
    let mut released = format!("released {name} by force holders={}", answer.holder_count);
    if let Some(closed_for) = answer.closed_for {
        let _ = write!(released, " closed_for={}", duration(Some(&closed_for)));
    }
    let mut lines = vec![released];
    lines.extend(answer.holders.iter().map(holder_line));
    lines.join("\n")
}
