//! Converts between proto and domain: what an owner says of its hold.

use std::sync::Arc;

use lockkeeper_coordinator::{HolderKnown, Invalid, Note, note};

use super::pb;

/// The note of a request; none if it says nothing.
pub(super) fn of_request(sent: Option<&pb::Note>) -> Result<Option<Arc<Note>>, Invalid> {
    match sent {
        Some(sent) => {
            let labels = sent.labels.iter();
            let labels = labels.map(|(key, value)| (key.clone(), value.clone()));
            note(sent.reason.clone(), labels.collect())
        }
        None => Ok(None),
    }
}

pub(super) fn proto(note: &Note) -> pb::Note {
    let labels = note.labels.iter();
    pb::Note {
        reason: note.reason.clone(),
        labels: labels
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    }
}

/// The note of a holder, if it is known.
pub(super) fn of_holder(holder: &HolderKnown) -> Option<pb::Note> {
    holder.note.as_deref().map(proto)
}
