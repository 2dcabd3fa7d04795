//! A hash as Redis saves it, which `RESTORE` makes a key of. That is the only command that makes a
//! hash with a time to live if, and only if, its key does not exist.

use std::sync::atomic::{AtomicU8, Ordering};

use crc::{CRC_64_REDIS, Crc, Table};

/// Sixteen bytes at a time: a fifth of the time that one at a time takes.
static CRC64: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Fields that are saved. A longer one would need another form of its length.
const FIELD_BYTES_MAX: usize = 4095;

/// How a server takes a saved hash; each connection finds out by itself.
#[derive(Debug, Default)]
pub(super) struct Dialect(AtomicU8);

/// A form of a saved hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As one list pack, by Redis 7 and newer, which takes it as it is.
    ListPack = 0,
    /// As texts one after the other, by Redis 5 and newer.
    Texts = 1,
}

/// What stands for a server that takes none.
const NONE: u8 = 2;

// === impl Dialect ===

impl Dialect {
    /// The form to use; none if the server has refused all.
    pub(super) fn get(&self) -> Option<Form> {
        match self.0.load(Ordering::Relaxed) {
            0 => Some(Form::ListPack),
            1 => Some(Form::Texts),
            _ => None,
        }
    }

    /// The server does not know this form. Returns the one to use instead.
    pub(super) fn forget(&self, form: Form) -> Option<Form> {
        self.0.fetch_max(form as u8 + 1, Ordering::Relaxed);
        self.get()
    }

    /// The server does not allow the command. False if that was known.
    pub(super) fn refuse(&self) -> bool {
        self.0.swap(NONE, Ordering::Relaxed) < NONE
    }
}

// === impl Form ===

impl Form {
    /// The hash `{field: 1}`, as an argument of `RESTORE`; none if the field is too long.
    pub(super) fn hash_of(self, field: &[u8]) -> Option<Vec<u8>> {
        if field.is_empty() || field.len() > FIELD_BYTES_MAX {
            return None;
        }
        let mut saved = Vec::with_capacity(field.len() + 40);
        match self {
            Self::ListPack => {
                saved.push(16);
                push_list_pack(&mut saved, field)?;
                saved.extend([10, 0]);
            }
            Self::Texts => {
                saved.extend([4, 1]);
                push_length(&mut saved, field.len());
                saved.extend(field);
                // The number 1, in one byte.
                saved.extend([0xC0, 1]);
                saved.extend([9, 0]);
            }
        }
        saved.extend(CRC64.checksum(&saved).to_le_bytes());
        Some(saved)
    }
}

/// A length as Redis saves it: the first two bits say how many follow.
fn push_length(saved: &mut Vec<u8>, length: usize) {
    let [.., high, low] = length.to_be_bytes();
    if length < 64 {
        saved.push(low);
    } else {
        saved.extend([0x40 | high, low]);
    }
}

/// The field and `1`, behind the length of all: bytes and number of entries, entries, and an end.
/// An entry is its length and content, and behind it how long both are.
fn push_list_pack(saved: &mut Vec<u8>, field: &[u8]) -> Option<()> {
    let [.., high, low] = field.len().to_be_bytes();
    let head: &[u8] = if field.len() < 64 {
        &[0x80 | low]
    } else {
        &[0xE0 | high, low]
    };
    let entry = head.len() + field.len();
    let [long, short] = [entry >> 7, entry & 127].map(u8::try_from);
    let behind: &[u8] = if entry < 128 {
        &[short.ok()?]
    } else {
        &[long.ok()?, 0x80 | short.ok()?]
    };
    // The number 1 in one byte, and that, and the end.
    let rest = [1, 1, 0xFF];
    let total = 6 + entry + behind.len() + rest.len();
    push_length(saved, total);
    saved.extend(u32::try_from(total).ok()?.to_le_bytes());
    saved.extend([2, 0]);
    for part in [head, field, behind, &rest] {
        saved.extend(part);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_given_up_once() {
        let dialect = Dialect::default();
        assert_eq!(dialect.get(), Some(Form::ListPack));
        assert_eq!(dialect.forget(Form::ListPack), Some(Form::Texts));
        assert_eq!(dialect.forget(Form::ListPack), Some(Form::Texts), "known");
        assert_eq!(dialect.forget(Form::Texts), None);
        assert!(!dialect.refuse());
        assert!(Dialect::default().refuse());
    }

    /// What Redis 7.0 answers to `DUMP` of the hash `{a: 1}`.
    #[test]
    fn a_saved_hash_is_what_redis_saves() {
        let saved = Form::ListPack.hash_of(b"a").unwrap();
        let body = b"\x10\x0c\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xff\x0a\x00";
        assert_eq!(saved[..body.len()], body[..]);
        assert_eq!(saved.len(), body.len() + 8);
        assert_eq!(Form::Texts.hash_of(&[b'x'; FIELD_BYTES_MAX + 1]), None);
    }
}
