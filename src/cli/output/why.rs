//! Why a lock is waited for, in words.

use lockkeeper_api::pb::{
    Deadlock, DeadlockedWait, ExplainResponse, ExplainedHolder, ExplainedLock, ExplainedWait,
    LockMode,
};

use super::{
    lock::note_words,
    words::{duration, mode, more, shown},
};

/// The chain: a line for each lock that is not held, or else for each holder. Then the deadlocks.
pub(crate) fn chain(answer: &ExplainResponse) -> String {
    let mut lines = Vec::new();
    for lock in &answer.locks {
        lines.extend(lock.holders.iter().map(|it| held(lock, it)));
        if lock.holders.is_empty() {
            lines.push(format!("{} is free", shown(&lock.name)));
        }
        lines.extend(more(lock.holder_count, lock.holders.len(), "holders"));
    }
    if answer.truncated {
        lines.push("some entries are not shown".to_owned());
    }
    lines.extend(answer.deadlocks.iter().map(deadlock));
    lines.join("\n")
}

fn held(lock: &ExplainedLock, held: &ExplainedHolder) -> String {
    let holder = held.holder.clone().unwrap_or_default();
    let what = match holder.mode() {
        LockMode::Read => "is read by",
        _ if lock.is_semaphore => "has permits held by",
        _ => "is held by",
    };
    let who = name(&holder.client_name, &holder.session_digest, &holder.owner);
    let since = match held.held_for.as_ref() {
        Some(held_for) => format!(" for {}", duration(Some(held_for))),
        None => String::new(),
    };
    let lease = match holder.remaining_lease.as_ref() {
        Some(lease) => format!(", lease {}", duration(Some(lease))),
        None => String::new(),
    };
    let name = shown(&lock.name);
    let note = note_words(holder.note.as_ref());
    let waits = held.waits.iter().map(waits).collect::<String>();
    format!("{name} {what} {who}{since}{lease}{note}{waits}")
}

fn waits(wait: &ExplainedWait) -> String {
    let who = if wait.is_holder {
        "it".to_owned()
    } else {
        format!("owner {} of its session", shown(&wait.owner))
    };
    let what = if wait.is_hidden {
        "a name that you may not see".into()
    } else {
        shown(&wait.name)
    };
    let how = match wait.mode() {
        LockMode::Read | LockMode::Write => format!(" ({})", mode(wait.mode())),
        _ => String::new(),
    };
    let since = duration(wait.waiting_for.as_ref());
    format!("; {who} has waited for {what}{how} for {since}")
}

fn deadlock(deadlock: &Deadlock) -> String {
    let waits = deadlock.waits.iter().map(|wait: &DeadlockedWait| {
        let who = name(&wait.client_name, &wait.session_digest, &wait.owner);
        match wait.name.as_str() {
            "" => format!("{who} waits for a name that you may not see"),
            name => format!("{who} waits for {}", shown(name)),
        }
    });
    let what = if deadlock.is_possible {
        "possible deadlock"
    } else {
        "deadlock"
    };
    format!("{what}: {}", waits.collect::<Vec<_>>().join("; "))
}

/// Who it is: the client's name if it has one, and what tells it from others.
fn name(client: &str, session: &str, owner: &str) -> String {
    let owner = shown(owner);
    match (client, session) {
        ("", "") if owner.is_empty() => "others".to_owned(),
        ("", "") => owner.into_owned(),
        ("", session) => format!("session {session} (owner {owner})"),
        (client, session) => format!("{} (session {session}, owner {owner})", shown(client)),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_api::pb::{Holder, Note};

    use super::*;

    #[test]
    fn a_chain_is_read_from_the_lock_to_who_is_really_waited_for() {
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let holder = |owner: &str, client: &str| Holder {
            owner: owner.to_owned(),
            client_name: client.to_owned(),
            session_digest: "0123".to_owned(),
            remaining_lease: seconds(25),
            ..Holder::default()
        };
        let note = Note {
            reason: "release 1.4".to_owned(),
            ..Note::default()
        };
        let build = ExplainedHolder {
            holder: Some(Holder {
                note: Some(note),
                ..holder("job", "ci-7")
            }),
            held_for: seconds(300),
            waits: vec![ExplainedWait {
                name: "deploy".to_owned(),
                is_holder: true,
                waiting_for: seconds(120),
                ..ExplainedWait::default()
            }],
        };
        let deploy = ExplainedHolder {
            holder: Some(holder("x", "")),
            ..ExplainedHolder::default()
        };
        let lock = |name: &str, holder| ExplainedLock {
            name: name.to_owned(),
            holders: vec![holder],
            holder_count: 1,
            ..ExplainedLock::default()
        };
        let wait = |client: &str, name: &str| DeadlockedWait {
            client_name: client.to_owned(),
            session_digest: "0123".to_owned(),
            owner: "job".to_owned(),
            name: name.to_owned(),
            ..DeadlockedWait::default()
        };
        let answer = ExplainResponse {
            locks: vec![lock("build", build), lock("deploy", deploy)],
            truncated: false,
            deadlocks: vec![Deadlock {
                waits: vec![wait("ci-7", "deploy"), wait("", "")],
                is_possible: true,
            }],
        };
        assert_eq!(
            chain(&answer),
            "build is held by ci-7 (session 0123, owner job) for 5m, lease 25s \
             reason=\"release 1.4\"; it has waited for deploy for 2m\n\
             deploy is held by session 0123 (owner x), lease 25s\n\
             possible deadlock: ci-7 (session 0123, owner job) waits for deploy; \
             session 0123 (owner job) waits for a name that you may not see"
        );
    }
}
