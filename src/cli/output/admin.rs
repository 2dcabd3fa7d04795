//! Locks held by other callers, sessions and events in words.

use std::fmt::Write as _;

use lockkeeper_api::pb::{
    EndSessionResponse, ForceReleaseResponse, LockMode, LockSummary, LostReason, NameKind,
    SessionPhase, SessionSummary, WatchDelta, WatchEvent,
};

use super::{
    lock::holder_line,
    words::{duration, mode, shown},
};

pub(crate) fn lock(lock: &LockSummary) -> String {
    let (name, waiters) = (&lock.name, lock.waiter_count);
    let state = match lock.kind() {
        NameKind::Semaphore => format!(
            "semaphore {name} total={} available={} holders={}",
            lock.total_permits, lock.available_permits, lock.holder_count
        ),
        NameKind::Latch => format!("latch {name} count={}", lock.count),
        NameKind::Lock | NameKind::ReadWriteLock | NameKind::Unspecified
            if lock.holder_count == 0 =>
        {
            format!("free {name}")
        }
        NameKind::Lock | NameKind::ReadWriteLock | NameKind::Unspecified => {
            let first = lock.holders.first();
            let owner = first.map_or("?".into(), |holder| shown(&holder.owner));
            let client = first.map_or("".into(), |holder| shown(&holder.client_name));
            format!(
                "held {name} mode={} holders={} owner={owner} client_name={client} \
                 remaining_lease={} last_fencing_token={}",
                mode(lock.mode()),
                lock.holder_count,
                duration(lock.remaining_lease.as_ref()),
                lock.last_fencing_token,
            )
        }
    };
    format!("{state} waiters={waiters}")
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
    format!(
        "{} {phase} client_name={} identity={} peer_address={} age={} lease={} grants={} waits={}",
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

pub(crate) fn sessions_ended(answer: EndSessionResponse) -> String {
    let EndSessionResponse {
        session_count,
        grant_count,
    } = answer;
    format!("ended sessions={session_count} grants={grant_count}")
}

pub(crate) fn event(event: &WatchDelta) -> String {
    let what = match event.event() {
        WatchEvent::Granted => "granted",
        WatchEvent::Released => "released",
        WatchEvent::Lost => "lost",
        WatchEvent::WaitBegan => "waits",
        WatchEvent::WaitEnded => "waits no longer",
        WatchEvent::Abandoned => "abandoned",
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
        | WatchEvent::Unspecified => {}
    }
    parts.join(" ")
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
