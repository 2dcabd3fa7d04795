//! The words of stories of locks, read and written.

use std::{borrow::Cow, fmt::Write as _};

use lockkeeper_store::script::{
    ForcedRecord, Hold, Mode, Note, QueuePositions, Refusal, Released, Renewal, keys,
};

use super::requests::renewal_of;
use super::{
    mask::Mask,
    story::{option, rounded, time},
};

/// What the words of a story stand for: names that share a slot.
pub(super) const LOCKS: [&str; 4] = ["lock", "{lock}2", "{lock}3", "{lock}4"];

pub(super) const WORDS: [&str; 4] = ["lock", "lock2", "lock3", "lock4"];

/// A session id, which stories write as `s`.
pub(super) const SESSION: &str = "6fa459ea-ee8a-3ca4-894e-36c7f0b2d6f1";

/// How a command asks to hold the lock.
pub(super) fn mode_of(words: &[&str]) -> Mode {
    option(words, "mode").map_or(Mode::Exclusive, mode)
}

pub(super) fn released(outcome: &Released) -> String {
    match *outcome {
        Released::Done {
            hold_count,
            held,
            lease,
        } => format!("done {hold_count}, now {held} {}", rounded(lease)),
        Released::NotOwner(ownership) => format!("{ownership:?}"),
    }
}

/// What becomes of an acquire that is refused.
pub(super) fn refusal(words: &[&str]) -> Refusal {
    if words.contains(&"recorded") {
        Refusal::Recorded
    } else if words.contains(&"waits") {
        Refusal::Waits
    } else {
        Refusal::Forgotten
    }
}

pub(super) fn vouched_for(vouched: &QueuePositions) -> String {
    let left = vouched.remaining.map_or("none".to_owned(), rounded);
    let places: Vec<_> = vouched.places.iter().map(u32::to_string).collect();
    let note = note_shown(vouched.note.as_deref());
    format!("{left}, places {}{note}", places.join(" "))
}

/// `reason`, and with a label `reason,key=value`
pub(super) fn note(text: &str) -> Note {
    let mut parts = text.split(',');
    let reason = parts.next().unwrap_or_default().to_owned();
    let labels = parts.filter_map(|part| part.split_once('='));
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Note {
        reason,
        labels: labels.collect(),
    }
}

pub(super) fn note_shown(note: Option<&Note>) -> String {
    let Some(note) = note else {
        return String::new();
    };
    let mut text = format!(" \"{}", note.reason);
    for (key, value) in &note.labels {
        let _ = write!(text, ",{key}={value}");
    }
    text + "\""
}

pub(super) fn mode(word: &str) -> Mode {
    match word {
        "sole" => Mode::Exclusive,
        "fair" => Mode::Fair,
        "read" => Mode::Read,
        "write" => Mode::Write,
        _ => panic!("no such mode: {word}"),
    }
}

/// `owner@lock:100s`, and for another mode `owner@lock:100s:read`
pub(super) fn renewal(text: &str) -> Renewal {
    let (owner, rest) = text.split_once('@').unwrap();
    let (name, lease) = rest.split_once(':').unwrap();
    let (lease, of_mode) = lease.split_once(':').unwrap_or((lease, ""));
    renewal_of(
        Hold::new(
            name_of(name),
            if of_mode.is_empty() {
                Mode::Exclusive
            } else {
                mode(of_mode)
            },
            owner,
        ),
        time(lease),
    )
}

pub(super) fn hold_of<'a>(name: &'a str, mode: Mode, field: &'a str) -> Hold<'a> {
    match keys::owner_of(field) {
        Cow::Owned(_) => Hold::new(name, mode, field).of_grant(),
        Cow::Borrowed(_) => Hold::new(name, mode, field),
    }
}

/// `s:0` is an owner in a session, and `s#1:0` the field of its grant 1.
pub(super) fn in_session(word: &str) -> Cow<'_, str> {
    match word.strip_prefix('s') {
        Some(rest) if rest.starts_with([':', '#']) => [SESSION, rest].concat().into(),
        _ => word.into(),
    }
}

/// The lock that a word stands for.
pub(super) fn name_of(word: &str) -> &'static str {
    let at = WORDS.iter().position(|it| *it == word);
    LOCKS[at.unwrap_or_else(|| panic!("no such lock: {word}"))]
}

/// What is kept of a release by force.
pub(super) fn forced_record(mask: &mut Mask, record: Option<ForcedRecord>) -> String {
    let Some(record) = record else {
        return "never".to_owned();
    };
    let ForcedRecord {
        token,
        reason,
        grace,
        preempted,
    } = record;
    let token = mask.number(token.try_into().unwrap());
    let preempted = if preempted { "preempted " } else { "" };
    if grace.is_zero() {
        format!("{token} {preempted}{reason}")
    } else {
        format!("{token} {preempted}{reason} {}", rounded(grace))
    }
}
