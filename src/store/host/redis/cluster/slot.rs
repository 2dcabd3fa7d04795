//! In which slot a key is.

use crc::{CRC_16_XMODEM, Crc};

/// The slots of every cluster.
pub(super) const SLOTS: u16 = 16384;

static CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The slot of a key or a channel.
pub(super) fn slot(key: &[u8]) -> u16 {
    CRC.checksum(hash_tag(key)) % SLOTS
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
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"a}b"), slot(b"a}b"));
    }
}
