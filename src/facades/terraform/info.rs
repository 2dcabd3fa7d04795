//! Terraform's lock info: who has locked a state, and why.

use std::{collections::BTreeMap, sync::Arc};

use lockkeeper_coordinator::{Invalid, Note, Owner, note};
use serde_json::Value;

const ID: &str = "ID";
const OPERATION: &str = "Operation";

/// The fields that a note keeps, as labels of the same name.
const FIELDS: [&str; 7] = [ID, OPERATION, "Info", "Who", "Version", "Created", "Path"];

/// Maximum bytes of a field in a note; of longer ones the beginning is kept.
const FIELD_BYTES_MAX: usize = 128;

/// A lock info with an ID.
#[derive(Debug)]
pub(super) struct LockInfo(BTreeMap<String, String>);

// === impl LockInfo ===

impl LockInfo {
    /// None of an empty body, which is what `terraform force-unlock` sends. Unknown fields are
    /// left out.
    pub(super) fn parse(json: &[u8]) -> Result<Option<Self>, Invalid> {
        let refuse = |why: &str| Invalid::new("lock_info", why);
        if json.is_empty() {
            return Ok(None);
        }
        let read: Result<BTreeMap<String, Value>, _> = serde_json::from_slice(json);
        let read = read.map_err(|_| refuse("must be a JSON object"))?;
        let fields = FIELDS.into_iter().filter_map(|field| {
            let text = read.get(field)?.as_str().filter(|text| !text.is_empty())?;
            Some((field.to_owned(), text.to_owned()))
        });
        let fields: BTreeMap<_, _> = fields.collect();
        if fields.contains_key(ID) {
            Ok(Some(Self(fields)))
        } else {
            let why = "must have the ID of a lock; Terraform's state itself is not kept here";
            Err(refuse(why))
        }
    }

    /// The ID, which only this run of Terraform has.
    pub(super) fn id(&self) -> &str {
        &self.0[ID]
    }

    /// The note that keeps it.
    pub(super) fn note(self) -> Result<Option<Arc<Note>>, Invalid> {
        let operation = self.0.get(OPERATION).map_or("", |text| beginning(text));
        let reason = format!("terraform {operation}").trim_end().to_owned();
        let labels = self.0.into_iter();
        let labels = labels.map(|(field, text)| (field, beginning(&text).to_owned()));
        note(reason, labels.collect())
    }
}

/// Whether an owner and its note are those of a lock info. Others may have a label `ID`, too, but
/// here it is the owner, behind the caller's mark.
pub(super) fn is_of_terraform(owner: &Owner, note: Option<&Arc<Note>>) -> bool {
    let id = note.and_then(|note| note.labels.get(ID));
    let id = id.filter(|id| !id.is_empty());
    owner.session.is_none() && id.is_some_and(|id| owner.label.contains(&**id))
}

/// The lock info of a holder as JSON, from its note. Holders without one are shown as what they
/// are.
pub(super) fn of_holder(note: Option<&Note>) -> Vec<u8> {
    let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
    match note {
        Some(note) if note.labels.contains_key(ID) => {
            let labels = note.labels.iter();
            let labels = labels.filter(|(field, _)| FIELDS.contains(&field.as_str()));
            fields.extend(labels.map(|(field, text)| (field.as_str(), text.as_str())));
        }
        other => {
            fields.insert(ID, "");
            fields.insert("Who", "a client of Lockkeeper that is not Terraform");
            fields.insert("Info", other.map_or("", |note| &note.reason));
        }
    }
    serde_json::to_vec(&fields).unwrap_or_default()
}

/// The beginning of a text that fits into a label.
fn beginning(text: &str) -> &str {
    let ends = text
        .char_indices()
        .map(|(at, letter)| at + letter.len_utf8());
    let end = ends.take_while(|end| *end <= FIELD_BYTES_MAX).last();
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = r#"{"ID":"0f36","Operation":"OperationTypeApply","Info":"","Who":"me@here",
        "Version":"1.11.4","Created":"2026-11-24T02:23:28.493456371Z","Path":"","New":{"a":1}}"#;

    #[test]
    fn a_note_gives_back_the_lock_info() {
        let info = LockInfo::parse(INFO.as_bytes()).unwrap().unwrap();
        assert_eq!(info.id(), "0f36");
        let note = info.note().unwrap().unwrap();
        assert_eq!(note.reason, "terraform OperationTypeApply");
        let shown: Value = serde_json::from_slice(&of_holder(Some(&note))).unwrap();
        let expected = serde_json::json!({
            "ID": "0f36",
            "Operation": "OperationTypeApply",
            "Who": "me@here",
            "Version": "1.11.4",
            "Created": "2026-11-24T02:23:28.493456371Z",
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_long_field_is_cut_between_letters() {
        let long = format!(r#"{{"ID":"a","Who":"{}"}}"#, "ä".repeat(1000));
        let info = LockInfo::parse(long.as_bytes()).unwrap().unwrap();
        let note = info.note().unwrap().unwrap();
        assert_eq!(note.labels["Who"], "ä".repeat(FIELD_BYTES_MAX / 2));
    }

    #[test]
    fn a_state_is_no_lock_info() {
        assert!(LockInfo::parse(b"").unwrap().is_none());
        for other in [
            &b"{"[..],
            b"[]",
            b"{}",
            br#"{"ID":""}"#,
            br#"{"version":4,"serial":1}"#,
        ] {
            assert!(LockInfo::parse(other).is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_session_whose_note_has_an_id_is_not_a_run_of_terraform() {
        let note = |id: &str| {
            let labels = BTreeMap::from([(ID.to_owned(), id.to_owned())]);
            note(String::new(), labels).unwrap()
        };
        let session = "6a4a5bd5-45d5-4b4c-9d4c-0a1b2c3d4e5f";
        let of_session = Owner::from_field(&format!("{session}:0f36"));
        assert!(of_session.session.is_some());
        assert!(!is_of_terraform(&of_session, note("0f36").as_ref()));
        let run = Owner::from_field("0f36");
        assert!(is_of_terraform(&run, note("0f36").as_ref()));
        assert!(!is_of_terraform(&run, note("0f37").as_ref()));
        assert!(!is_of_terraform(&run, None));
    }

    #[test]
    fn another_holder_is_shown_without_an_id_that_could_unlock() {
        let note = Note {
            reason: "by hand".to_owned(),
            labels: BTreeMap::new(),
        };
        let shown: Value = serde_json::from_slice(&of_holder(Some(&note))).unwrap();
        assert_eq!(
            (&shown["ID"], &shown["Info"]),
            (&"".into(), &"by hand".into())
        );
    }
}
