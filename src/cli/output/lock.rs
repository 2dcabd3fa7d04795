//! Locks in words.

use lockkeeper_api::pb::{
    DescribeResponse, Grant, Holder, LockFree, Note, RequestYieldResponse, Waiter, Waiting,
};

use super::words::{duration, mode, more, shown};

/// A grant in words.
pub(crate) fn grant(grant: &Grant) -> String {
    format!(
        "{} mode={} owner={} fencing_token={} hold_count={} lease={} valid_for={}",
        grant.name,
        mode(grant.mode()),
        grant.owner,
        grant.fencing_token,
        grant.hold_count,
        duration(grant.lease.as_ref()),
        duration(grant.valid_for.as_ref()),
    )
}

/// A wait in words.
pub(crate) fn waiting(name: &str, waiting: &Waiting) -> String {
    let place = match waiting.position {
        0 => String::new(),
        position => format!(" at position {position}"),
    };
    let holder = holder(
        waiting.holder_remaining_lease.as_ref(),
        waiting.holder_note.as_ref(),
    );
    format!("waiting for {name}{place}, {holder}")
}

/// A lock without a holder in words.
pub(crate) fn free(name: &str, free: LockFree) -> String {
    let token = free.last_fencing_token;
    format!("free {name} last_fencing_token={token}")
}

/// The rest of a holder's lease in words, and its note if it has one.
pub(crate) fn holder(remaining: Option<&prost_types::Duration>, note: Option<&Note>) -> String {
    let lease = match remaining {
        Some(_) => format!("the holder's lease ends in {}", duration(remaining)),
        // The lease does not end, or the lock is free and other waiters come first.
        None => "it is not known when the lock becomes free".to_owned(),
    };
    match note {
        Some(note) => {
            let reason = Some(note.reason.clone()).filter(|reason| !reason.is_empty());
            let parts: Vec<_> = reason.into_iter().chain(labels(note)).collect();
            format!("{lease} ({})", parts.join("; "))
        }
        None => lease,
    }
}

/// The labels of a note in words, in the order of their keys.
fn labels(note: &Note) -> Vec<String> {
    let labels = note.labels.iter();
    let mut labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.sort();
    labels
}

/// A note at the end of a line about a holder; what is not set is not printed.
pub(super) fn note_words(note: Option<&Note>) -> String {
    let Some(note) = note else {
        return String::new();
    };
    let parts = [
        ("reason", note.reason.clone()),
        ("labels", labels(note).join(",")),
    ];
    let set = parts.iter().filter(|(_, text)| !text.is_empty());
    let words: Vec<_> = set
        .map(|(name, text)| format!(" {name}={text:?}"))
        .collect();
    words.concat()
}

/// Those who hold a lock, the first by name.
pub(crate) fn holders(answer: &DescribeResponse) -> String {
    let first = answer.holders.first();
    let name = first.map_or_else(String::new, |it| {
        // Another coordinator knows its client name. `0` is the owner in most sessions.
        match (it.client_name.as_str(), it.session_digest.as_str()) {
            ("", "") => it.owner.clone(),
            ("", digest) => format!("session {digest}"),
            (name, _) => name.to_owned(),
        }
    });
    match answer.holder_count.saturating_sub(1) {
        0 => name,
        others => format!("{name} and {others} more"),
    }
}

/// A lock in words: its state, then a line for each holder, then one for each waiter.
pub(crate) fn description(answer: &DescribeResponse) -> String {
    let (name, token) = (&answer.name, answer.last_fencing_token);
    let mut lines = vec![if answer.holders.is_empty() {
        format!("free {name} last_fencing_token={token}")
    } else {
        format!(
            "held {name} mode={} holders={} last_fencing_token={token} remaining_lease={}",
            mode(answer.mode()),
            answer.holder_count,
            duration(answer.remaining_lease.as_ref())
        )
    }];
    lines.extend(answer.holders.iter().map(holder_line));
    lines.extend(more(answer.holder_count, answer.holders.len(), "holders"));
    lines.extend(answer.waiters.iter().map(waiter_line));
    lines.extend(more(answer.waiter_count, answer.waiters.len(), "waiters"));
    lines.join("\n")
}

pub(crate) fn yield_requested(name: &str, answer: &RequestYieldResponse) -> String {
    let (holders, reached) = (answer.holder_count, answer.reached_count);
    if holders == 0 {
        return format!("nobody holds {name}");
    }
    let mut lines = vec![format!("asked {name} holders={holders} reached={reached}")];
    for (is_reached, holders) in [(true, &answer.reached), (false, &answer.unreached)] {
        let line = |it| format!("{} reached={is_reached}", holder_line(it));
        lines.extend(holders.iter().map(line));
    }
    lines.join("\n")
}

pub(super) fn holder_line(holder: &Holder) -> String {
    format!(
        "  holder owner={} mode={} hold_count={} remaining_lease={} session_digest={} \
         client_name={}{}",
        shown(&holder.owner),
        mode(holder.mode()),
        holder.hold_count,
        duration(holder.remaining_lease.as_ref()),
        holder.session_digest,
        shown(&holder.client_name),
        note_words(holder.note.as_ref())
    )
}

fn waiter_line(waiter: &Waiter) -> String {
    format!(
        "  waiter position={} owner={} mode={} waiting_for={} session_digest={} client_name={}",
        waiter.position,
        shown(&waiter.owner),
        mode(waiter.mode()),
        duration(waiter.waiting_for.as_ref()),
        waiter.session_digest,
        shown(&waiter.client_name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_at_another_coordinator_is_named_by_its_session() {
        let answer = |client_name: &str, session_digest: &str| DescribeResponse {
            holder_count: 2,
            holders: vec![Holder {
                owner: "0".to_owned(),
                client_name: client_name.to_owned(),
                session_digest: session_digest.to_owned(),
                ..Holder::default()
            }],
            ..DescribeResponse::default()
        };
        assert_eq!(holders(&answer("ci", "6c31")), "ci and 1 more");
        assert_eq!(holders(&answer("", "6c31")), "session 6c31 and 1 more");
        assert_eq!(holders(&answer("", "")), "0 and 1 more");
    }

    #[test]
    fn a_note_is_words_for_who_waits_and_a_field_where_holders_are_listed() {
        let labels = [("team", "web"), ("env", "prod")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let note = Note {
            reason: "release 1.4".to_owned(),
            labels: labels.into(),
        };
        let known = "it is not known when the lock becomes free";
        assert_eq!(
            holder(None, Some(&note)),
            format!("{known} (release 1.4; env=prod; team=web)")
        );
        assert_eq!(holder(None, None), known);
        let listed = Holder {
            owner: "0".to_owned(),
            note: Some(note),
            ..Holder::default()
        };
        let line = holder_line(&listed);
        let field = " client_name= reason=\"release 1.4\" labels=\"env=prod,team=web\"";
        assert!(line.ends_with(field), "{line}");
    }
}
