//! A hash as Redis saves it, which `RESTORE` makes a key of. That is the only command that makes a
//! hash with a time to live if, and only if, its key does not exist.

use std::sync::atomic::{AtomicU8, Ordering};

use crc::{CRC_64_REDIS, Crc};

static CRC64: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

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
        let mut saved = Vec::with_capacity(field.len() + 32);
        match self {
            Self::ListPack => {
                let pack = list_pack(field)?;
                saved.push(16);
                push_length(&mut saved, pack.len());
                saved.extend(pack);
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

/// The field and `1`: bytes and number of entries, entries, and an end. An entry is its length and
/// content, and behind it how long both are.
fn list_pack(field: &[u8]) -> Option<Vec<u8>> {
    let mut entry = Vec::with_capacity(field.len() + 16);
    let [.., high, low] = field.len().to_be_bytes();
    if field.len() < 64 {
        entry.push(0x80 | low);
    } else {
        entry.extend([0xE0 | high, low]);
    }
    entry.extend(field);
    let length = entry.len();
    if length < 128 {
        entry.push(u8::try_from(length).ok()?);
    } else {
        let (high, low) = (
            u8::try_from(length >> 7).ok()?,
            u8::try_from(length & 127).ok()?,
        );
        entry.extend([high, 0x80 | low]);
    }
    // The number 1 in one byte, and that.
    entry.extend([1, 1]);
    let total = u32::try_from(entry.len() + 7).ok()?;
    let mut pack = total.to_le_bytes().to_vec();
    pack.extend([2, 0]);
    pack.extend(entry);
    pack.push(0xFF);
    Some(pack)
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
