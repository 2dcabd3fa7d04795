//! What an owner says of its hold, and what others know of a holder.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use lockkeeper_store::script::Note;
use tokio::time::Instant;

use super::{Invalid, over};

/// Maximum bytes of a reason.
const REASON_BYTES_MAX: usize = 256;
/// Maximum number of labels.
const LABELS_MAX: usize = 8;
/// Maximum bytes of a label's key.
const KEY_BYTES_MAX: usize = 64;
/// Maximum bytes of a label's value.
const VALUE_BYTES_MAX: usize = 128;

/// What is known of the holder of a lock that another owner wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HolderKnown {
    /// End of its lease; none if its key has no time to live, or if no holder is known.
    pub until: Option<Instant>,
    /// What it says of its hold.
    pub note: Option<Arc<Note>>,
}

/// Validates a note; none if it says nothing.
pub fn note(
    reason: String,
    labels: BTreeMap<String, String>,
) -> Result<Option<Arc<Note>>, Invalid> {
    if let Some(why) = over(&reason, REASON_BYTES_MAX) {
        return Err(Invalid::new("note.reason", why));
    }
    let refuse = |why: String| Err(Invalid::new("note.labels", why));
    if labels.len() > LABELS_MAX {
        let count = labels.len();
        return refuse(format!(
            "must have at most {LABELS_MAX} entries, but has {count}"
        ));
    }
    for (key, value) in &labels {
        if key.is_empty() || key.contains('=') {
            return refuse("a key must not be empty and must not contain `=`".to_owned());
        } else if let Some(why) = over(key, KEY_BYTES_MAX) {
            return refuse(format!("a key {why}"));
        } else if let Some(why) = over(value, VALUE_BYTES_MAX) {
            return refuse(format!("the value of {key} {why}"));
        }
    }
    let says_nothing = reason.is_empty() && labels.is_empty();
    Ok((!says_nothing).then(|| Arc::new(Note { reason, labels })))
}

// === impl HolderKnown ===

impl HolderKnown {
    /// A holder whose lease has this much left.
    pub(crate) fn of(remaining: Option<Duration>, note: Option<Arc<Note>>) -> Self {
        Self {
            until: remaining.map(|remaining| Instant::now() + remaining),
            note,
        }
    }
}

impl From<Option<Instant>> for HolderKnown {
    fn from(until: Option<Instant>) -> Self {
        Self { until, note: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_within_its_limits_or_the_field_is_named() {
        let labels = |labels: &[(&str, &str)]| -> BTreeMap<String, String> {
            let labels = labels.iter();
            labels
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        let eight = (0..8).map(|at| (at.to_string(), String::new())).collect();
        let nine = (0..9).map(|at| (at.to_string(), String::new())).collect();
        let (long, longer) = ("x".repeat(256), "x".repeat(257));
        let good = [
            ("", labels(&[("team", "build")])),
            ("", eight),
            (
                long.as_str(),
                labels(&[("a", ""), (&long[..64], &long[..128])]),
            ),
        ];
        for (reason, labels) in good {
            assert!(matches!(note(reason.to_owned(), labels), Ok(Some(_))));
        }
        let bad = [
            (longer.as_str(), labels(&[]), "note.reason"),
            ("two\nlines", labels(&[]), "note.reason"),
            ("", nine, "note.labels"),
            ("", labels(&[("", "v")]), "note.labels"),
            ("", labels(&[("a=b", "v")]), "note.labels"),
            ("", labels(&[(&long[..65], "v")]), "note.labels"),
            ("", labels(&[("a", &long[..129])]), "note.labels"),
            ("", labels(&[("a", "\u{202e}")]), "note.labels"),
        ];
        for (reason, labels, field) in bad {
            assert_eq!(note(reason.to_owned(), labels).unwrap_err().field, field);
        }
        assert_eq!(note(String::new(), labels(&[])), Ok(None));
    }
}
