//! What has changed at a lock between two looks.

use std::time::Duration;

use crate::lock_watch::look::Look;
use lockkeeper_store::script::{Holder, Inspected, Mode, keys};

/// Why a grant is no longer seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantEnd {
    /// A release was announced.
    Released,
    /// Its lease was over.
    Expired,
    /// It was taken away by force, after a request to yield or without one.
    Forced {
        /// Whether its holder was asked to yield before.
        preempted: bool,
    },
    /// It ended before its lease, and nothing was announced.
    Unannounced,
}

/// Why something may not have been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// The newest fencing token is that of a grant that no look has seen.
    Folded,
    /// Announcements may have been missed.
    Unheard,
    /// The store could not be read.
    StoreUnreachable,
    /// The watcher has not read for a while.
    Behind,
}

/// A change between two looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Folded,
    Ended(Holder, GrantEnd),
    Granted(Holder),
    Freed,
}

/// The changes from one look to a later one, in the order in which they happened: those that have
/// ended come first.
pub(crate) fn changes(before: &Look, after: &Look, counts_tokens: bool) -> Vec<Change> {
    let (Ok(was), Ok(is)) = (&before.seen, &after.seen) else {
        return Vec::new();
    };
    let is_newer = counts_tokens && is.token > was.token;
    let (held, holds) = (grants(was), grants(is));
    let stays = |holder: &Holder, others: &[&Holder]| {
        let same = |other: &Holder| other.owner == holder.owner && writes(other) == writes(holder);
        // The same owner with another token has another grant. Readers have none of their own.
        let is_same = holder.mode == Mode::Read || !is_newer;
        is_same && others.iter().any(|other| same(other))
    };
    let ended = held.iter().filter(|holder| !stays(holder, &holds));
    let granted: Vec<_> = holds
        .iter()
        .filter(|holder| !stays(holder, &held))
        .collect();
    let has_new_token = granted.iter().any(|holder| holder.mode != Mode::Read);
    let mut changes: Vec<Change> = ended
        .map(|holder| Change::Ended((*holder).clone(), end(holder, before, after)))
        .collect();
    if is_newer && !has_new_token {
        changes.push(Change::Folded);
    }
    if was.mode.is_some() && is.mode.is_none() {
        changes.push(Change::Freed);
    }
    changes.extend(
        granted
            .into_iter()
            .map(|&holder| Change::Granted(holder.clone())),
    );
    changes
}

/// The holders, without the marks that keep a lock closed for former ones.
pub(crate) fn grants(seen: &Inspected) -> Vec<&Holder> {
    let is_mark = |holder: &&Holder| {
        str::from_utf8(&holder.owner).is_ok_and(|owner| keys::former_owner(owner) != owner)
    };
    seen.holders.iter().filter(|it| !is_mark(it)).collect()
}

/// A lock with one owner is fair or exclusive as its queue grows and shrinks.
fn writes(holder: &Holder) -> bool {
    holder.mode == Mode::Write
}

fn end(holder: &Holder, before: &Look, after: &Look) -> GrantEnd {
    let is_over = |left: Duration| left <= after.begun.saturating_duration_since(before.begun);
    if after.heard.release {
        GrantEnd::Released
    } else if holder.remaining.is_some_and(is_over) {
        GrantEnd::Expired
    } else {
        GrantEnd::Unannounced
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_store::script::CallError;
    use tokio::time::Instant;

    use super::*;
    use crate::follow::followed::Heard;

    /// A look at so many milliseconds: holders as `owner:mode`, and the newest token.
    fn look(at: u64, holders: &str, token: u64, release: bool) -> Look {
        let holder = |text: &str| {
            let (owner, mode) = text.split_once('/').unwrap();
            Holder {
                owner: owner.to_owned().into(),
                mode: match mode {
                    "r" => Mode::Read,
                    "w" => Mode::Write,
                    "f" => Mode::Fair,
                    _ => Mode::Exclusive,
                },
                hold_count: 1,
                remaining: Some(Duration::from_secs(1)),
                note: None,
            }
        };
        let holders: Vec<_> = holders.split_whitespace().map(holder).collect();
        Look {
            begun: Instant::now() + Duration::from_millis(at),
            heard: Heard {
                release,
                ..Heard::default()
            },
            waiter_count: 0,
            seen: Ok(Inspected {
                mode: holders.first().map(|it| it.mode),
                holder_count: holders.len(),
                holders,
                remaining: None,
                token,
                queue: Vec::new(),
                queue_len: 0,
            }),
        }
    }

    fn told(before: &Look, after: &Look) -> String {
        let owner = |holder: &Holder| String::from_utf8_lossy(&holder.owner).into_owned();
        let words = changes(before, after, true)
            .into_iter()
            .map(|change| match change {
                Change::Folded => "folded".to_owned(),
                Change::Ended(holder, end) => format!("-{}:{end:?}", owner(&holder)),
                Change::Granted(holder) => format!("+{}", owner(&holder)),
                Change::Freed => "free".to_owned(),
            });
        words.collect::<Vec<_>>().join(" ")
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_changed_is_told_in_order() {
        for (before, after, expected) in [
            (("", 0, 0), ("a/x", 5, false), "+a"),
            (("a/x", 5, 0), ("a/f", 5, false), ""),
            (("a/x", 5, 0), ("", 5, true), "-a:Released free"),
            (("a/x", 5, 0), ("", 5, false), "-a:Unannounced free"),
            (("a/x", 5, 0), ("b/x", 7, true), "-a:Released +b"),
            (("a/x", 5, 0), ("a/x", 7, true), "-a:Released +a"),
            (("a/x", 5, 0), ("", 7, true), "-a:Released folded free"),
            (("", 5, 0), ("", 7, true), "folded"),
            (("a/r", 5, 0), ("a/r b/r", 5, false), "+b"),
            (("a/r b/r", 5, 0), ("b/r", 5, false), "-a:Unannounced"),
            (("a/r", 5, 0), ("a/r", 7, true), "folded"),
            (("a/w", 5, 0), ("a/w a/r", 5, false), "+a"),
            (
                ("a/x", 5, 0),
                ("lockkeeper_forced:a/x", 5, true),
                "-a:Released",
            ),
            (("lockkeeper_least:a/x", 5, 0), ("", 5, false), "free"),
        ] {
            let before = look(before.2, before.0, before.1, false);
            let after = look(100, after.0, after.1, after.2);
            assert_eq!(told(&before, &after), expected, "{before:?} {after:?}");
        }
        let (before, after) = (look(0, "a/x", 5, false), look(1000, "", 5, false));
        assert_eq!(told(&before, &after), "-a:Expired free");
    }

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_read_has_not_changed() {
        let (before, mut after) = (look(0, "a/x", 5, false), look(1, "", 5, true));
        after.seen = Err(CallError::Unavailable(String::new()));
        assert_eq!(told(&before, &after), "");
    }
}
