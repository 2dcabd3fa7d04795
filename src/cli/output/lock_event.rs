//! The events of one lock in words.

use lockkeeper_api::pb::{
    GrantEnd, Holder, LockEnded, LockGapReason, WatchLockResponse, watch_lock_response::Event,
};

use super::{
    lock::{free, holder_line, note_words},
    words::{mode, more, shown},
};

/// An event of a lock: one line, and one more for each holder at the beginning.
pub(crate) fn lock_event(name: &str, answer: &WatchLockResponse) -> String {
    match &answer.event {
        Some(Event::State(state)) => {
            let (token, waiters) = (state.last_fencing_token, state.waiter_count);
            let word = if state.holder_count > 0 {
                "held"
            } else {
                "free"
            };
            let first = format!("{word} {name} last_fencing_token={token} waiters={waiters}");
            let mut lines = vec![first];
            lines.extend(state.holders.iter().map(holder_line));
            lines.extend(more(state.holder_count, state.holders.len(), "holders"));
            lines.join("\n")
        }
        Some(Event::Granted(it)) => {
            let who = who(it.holder.as_ref());
            format!("granted {name} fencing_token={}{who}", it.fencing_token)
        }
        Some(Event::Ended(it)) => ended(name, it),
        Some(Event::Free(it)) => free(name, *it),
        Some(Event::Waiters(it)) => format!("waiters {name} count={}", it.waiter_count),
        Some(Event::Gap(it)) => format!("gap {name}: {}", gap(it.reason())),
        None => format!("? {name}"),
    }
}

fn ended(name: &str, ended: &LockEnded) -> String {
    let word = match ended.end() {
        GrantEnd::Released => "released",
        GrantEnd::Expired => "expired",
        GrantEnd::ForceReleased => "released by force",
        GrantEnd::Preempted => "preempted",
        GrantEnd::Unannounced | GrantEnd::Unspecified => "ended unannounced",
    };
    let detail = match ended.detail.as_str() {
        "" => String::new(),
        detail => format!(" detail={detail:?}"),
    };
    let (token, who) = (ended.fencing_token, who(ended.holder.as_ref()));
    format!("{word} {name} fencing_token={token}{who}{detail}")
}

fn who(holder: Option<&Holder>) -> String {
    let Some(holder) = holder else {
        return String::new();
    };
    format!(
        " mode={} owner={} session_digest={} client_name={}{}",
        mode(holder.mode()),
        shown(&holder.owner),
        holder.session_digest,
        shown(&holder.client_name),
        note_words(holder.note.as_ref())
    )
}

fn gap(reason: LockGapReason) -> &'static str {
    match reason {
        LockGapReason::Folded => "grants began and ended between two reads",
        LockGapReason::Unheard => "announcements may have been missed",
        LockGapReason::StoreUnreachable => "the store could not be read",
        LockGapReason::Behind => "events were read too slowly",
        LockGapReason::Unspecified => "no reason given",
    }
}
