//! What owners say of their holds: the store has it for as long as they hold, and shows no other.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use lockkeeper_coordinator::{Note, Owner};
use lockkeeper_store::{
    host::{Value, embedded::EmbeddedStore},
    script::keys,
};
use parking_lot::Mutex;

/// What the field of a write hold ends in.
const WRITE: &str = ":write";

/// Renewals of a hold in a row that may leave its note behind: a coordinator that asks for a hold
/// with a note renews the holds that it knows of meanwhile.
const RENEWALS_BEHIND: u32 = 3;

/// The notes that were seen, by lock and owner.
#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<BTreeMap<(String, String), Seen>>);

/// A note as it was seen last.
#[derive(Clone, Debug)]
struct Seen {
    serial: Bytes,
    /// Renewals in a row that it ends before its hold since.
    behind: u32,
    /// By how many ms.
    gap: i64,
    /// An attempt was undone that may have brought it: its coordinator may not know of it.
    is_undone: bool,
}

/// A hold and its note in the store.
struct Noted {
    field: String,
    serial: Bytes,
    text: Option<Bytes>,
    /// Times to live in ms: of the hold, of the note.
    lives: (i64, i64),
    /// A writer that reads as well keeps its lock by its reads, and not its note.
    writes: bool,
}

/// Every owner says who it is.
pub(crate) fn note_of(owner: &Owner) -> Arc<Note> {
    Arc::new(Note {
        reason: owner.field().to_owned(),
        ..Note::default()
    })
}

// === impl Notes ===

impl Notes {
    /// The rules that are broken by a lock as this script left it.
    pub(crate) fn broken(&self, store: &EmbeddedStore, lock: &str, by: &str) -> Vec<String> {
        let mut known = self.0.lock();
        let mut before = known.clone();
        known.retain(|(name, _), _| name != lock);
        before.retain(|(name, _), _| name == lock);
        let mut broken = Vec::new();
        for hold in held(store, lock) {
            let key = (lock.to_owned(), hold.field.clone());
            let was = before.remove(&key).filter(|was| was.serial == hold.serial);
            let owner = keys::owner_of(hold.field.strip_suffix(WRITE).unwrap_or(&hold.field));
            match (&hold.text, was) {
                (Some(text), _) if *text != *owner => {
                    broken.push(format!("{owner} has the note {text:?}"));
                }
                (None, Some(was)) if was.behind == 0 && !was.is_undone => {
                    broken.push(format!("the note of {owner} is lost"));
                }
                (None, _) => {}
                (Some(_), _) if hold.writes => {}
                (Some(_), was) => {
                    let (left, noted) = hold.lives;
                    let was_undone = was.as_ref().is_some_and(|was| was.is_undone);
                    let is_undone = was_undone || by.ends_with("_undo");
                    let was_level = was.as_ref().is_none_or(|was| was.behind == 0);
                    let gap = left - noted;
                    let behind = match was {
                        _ if gap <= 0 => 0,
                        // Renewals of other holds leave the gap as it is, but for a rounding.
                        Some(was) => was.behind + u32::from(gap > was.gap + 1),
                        None => 1,
                    };
                    let is_new = behind > 0 && was_level;
                    let is_wrong = behind > RENEWALS_BEHIND || (is_new && !by.ends_with("_renew"));
                    if is_wrong && !is_undone {
                        broken.push(format!("the note of {owner} ends before its hold"));
                    }
                    let seen = Seen {
                        serial: hold.serial,
                        behind,
                        gap,
                        is_undone,
                    };
                    known.insert(key, seen);
                }
            }
        }
        broken
    }

    /// What a script told of a holder of one of these locks that no holder says, if so.
    pub(crate) fn is_wrong(store: &EmbeddedStore, locks: &[&str], told: &Value) -> Option<String> {
        let Value::Array(told) = told else {
            return None;
        };
        let Some(Value::Bytes(told)) = told.last() else {
            return None;
        };
        let mut said = locks.iter().flat_map(|lock| held(store, lock));
        let is_said = said.any(|hold| hold.text.as_ref() == Some(told));
        (!is_said).then(|| format!("no holder says {told:?}"))
    }
}

/// The holds of our owners.
fn held(store: &EmbeddedStore, lock: &str) -> Vec<Noted> {
    let run = |words: &[&[u8]]| store.command(words).unwrap();
    let bytes = |value| match value {
        Value::Bytes(bytes) => bytes,
        _ => Bytes::new(),
    };
    let left = |key: &[u8]| match run(&[b"PTTL", key]) {
        Value::Int(left) => left,
        _ => -2,
    };
    let Value::Array(fields) = run(&[b"HGETALL", lock.as_bytes()]) else {
        return Vec::new();
    };
    let fields: Vec<_> = fields.into_iter().map(bytes).collect();
    let is_shared = fields.chunks(2).any(|pair| pair[0] == "mode");
    let holds = fields.chunks(2).filter(|pair| pair[0] != "mode");
    let noted = holds.map(|pair| {
        let field = String::from_utf8_lossy(&pair[0]).into_owned();
        let reads = is_shared && !field.ends_with(WRITE);
        let mut hold = keys::read_holds(lock, &field).to_bytes().to_vec();
        hold.push(b':');
        hold.extend(&pair[1]);
        let (key, serial, lives) = if reads {
            let key = keys::reader_note(lock, &field).to_bytes();
            (key, run(&[b"GET", &hold]), left(&hold))
        } else {
            let serial = run(&[b"GET", &keys::counter(lock).to_bytes()]);
            (keys::note(lock).to_bytes(), serial, left(lock.as_bytes()))
        };
        let serial = bytes(serial);
        let asked = run(&[b"HMGET", &key, b"owner", b"serial", b"note"]);
        let text = match asked {
            Value::Array(said) => {
                let said: Vec<_> = said.into_iter().map(bytes).collect();
                let is_own = said[0] == pair[0] && said[1] == serial && !serial.is_empty();
                is_own.then(|| said[2].clone())
            }
            _ => None,
        };
        let noted = left(&key);
        Noted {
            lives: (lives, if noted == -1 { -2 } else { noted }),
            field,
            serial,
            text,
            writes: is_shared && !reads,
        }
    });
    noted.collect()
}
