//! What an owner says of its hold, for other callers.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use bytes::Bytes;

use crate::host::Value;

/// What an owner says of its hold on a lock. Its texts have no control characters, and the keys of
/// its labels no `=`: a note that another program wrote otherwise is read as far as it can be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// Why it holds the lock; may be empty.
    pub reason: String,
    /// Labels by their keys.
    pub labels: BTreeMap<String, String>,
}

// === impl Note ===

impl Note {
    /// As the store keeps it: the reason, then each label in a line of its own.
    pub(crate) fn text(&self) -> Bytes {
        let mut text = self.reason.clone();
        for (key, value) in &self.labels {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n{key}={value}");
        }
        text.into()
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        let mut lines = text.split('\n');
        let reason = lines.next().filter(|line| is_shown(line))?.to_owned();
        let labels = lines.filter(|line| is_shown(line));
        let labels = labels.filter_map(|line| line.split_once('='));
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Some(Self {
            reason,
            labels: labels.collect(),
        })
    }

    /// The note in a reply; none if it is empty or not one.
    pub(crate) fn of(value: &Value) -> Option<Arc<Self>> {
        match value {
            Value::Bytes(text) if !text.is_empty() => Self::parse(text).map(Arc::new),
            Value::Bytes(_) | Value::Nil | Value::Int(_) | Value::Array(_) => None,
        }
    }
}

fn is_shown(line: &str) -> bool {
    !line.chars().any(char::is_control)
}

/// Takes the note of a holder off the end of a reply with this many numbers, if it is there.
pub(crate) fn take_note(reply: &mut Value, numbers: usize) -> Option<Arc<Note>> {
    match reply {
        Value::Array(values) if values.len() == numbers + 1 => {
            let note = values.pop_if(|last| matches!(last, Value::Bytes(_)));
            note.as_ref().and_then(Note::of)
        }
        Value::Array(_) | Value::Int(_) | Value::Bytes(_) | Value::Nil => None,
    }
}
