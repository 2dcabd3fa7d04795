//! In which slot a key is.

use std::sync::LazyLock;

use crc::{CRC_16_XMODEM, Crc};

/// The slots of every cluster.
pub(super) const SLOTS: u16 = 16384;

static CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The slot of a key or a channel.
pub(super) fn slot(key: &[u8]) -> u16 {
    CRC.checksum(hash_tag(key)) % SLOTS
}

/// A text that, in braces, puts a key into this slot.
pub(super) fn tag_of(slot: u16) -> String {
    /// The smallest number for each slot, which is below 200,000.
    static TAGS: LazyLock<Vec<Option<u32>>> = LazyLock::new(|| {
        let mut tags = vec![None; usize::from(SLOTS)];
        let mut left = tags.len();
        for number in 0.. {
            let tag = &mut tags[usize::from(self::slot(number.to_string().as_bytes()))];
            left -= usize::from(tag.is_none());
            tag.get_or_insert(number);
            if left == 0 {
                break;
            }
        }
        tags
    });
    let tag = TAGS.get(usize::from(slot)).copied().flatten();
    tag.unwrap_or_default().to_string()
}

/// The text between the first `{` and the next `}`; the whole key if that is nothing.
pub(super) fn hash_tag(key: &[u8]) -> &[u8] {
    let position = |of: u8, part: &[u8]| part.iter().position(|byte| *byte == of);
    let tag = position(b'{', key).and_then(|open| {
        let rest = &key[open + 1..];
        position(b'}', rest).map(|close| &rest[..close])
    });
    match tag {
        Some(tag) if !tag.is_empty() => tag,
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // By CLUSTER KEYSLOT of a server.
        for (key, expected) in [
            ("", 0),
            ("123456789", 12739),
            ("foo", 12182),
            ("{foo}bar", 12182),
            ("bar{foo}{x}", 12182),
            ("foo{}{bar}", 8363),
            ("redisson_lock__channel:{foo}", 12182),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        for slot in [0, 1, 12182, SLOTS - 1] {
            let key = format!("a:{{{}}}b", tag_of(slot));
            assert_eq!(super::slot(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"a}b"), slot(b"a}b"));
    }
}
