//! Keys, revisions and headers, as etcd's clients expect them.

use lockkeeper_coordinator::{Error, Invalid};

use super::etcdserverpb::ResponseHeader;
use crate::door::text;

/// The key of a lease's lock or candidacy: the name, a slash, and the lease in hexadecimal digits.
pub(super) fn key(name: &str, lease: i64) -> Vec<u8> {
    format!("{name}/{lease:x}").into_bytes()
}

/// The name and the lease of such a key.
pub(super) fn parse(key: &[u8]) -> Result<(&str, i64), Error> {
    let parts = text("key", key)?.rsplit_once('/');
    let parts = parts.and_then(|(name, lease)| {
        let lease = i64::from_str_radix(lease, 16).ok()?;
        Some((name, lease))
    });
    parts.ok_or_else(|| Invalid::new("key", "must be the key that Lock has returned").into())
}

/// A fencing token or a revision of an election. Neither comes near the bounds of the type.
pub(super) fn revision(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The header of an answer; the revision is 0 where the answer has none.
pub(super) fn header(revision: i64) -> ResponseHeader {
    ResponseHeader {
        revision,
        ..ResponseHeader::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_others_are_refused() {
        let made = key("team/build", 0x694d_8257_0118_4c2e);
        assert_eq!(made, b"team/build/694d825701184c2e");
        assert_eq!(parse(&made), Ok(("team/build", 0x694d_8257_0118_4c2e)));
        for bad in [&b"build"[..], b"build/", b"build/xyz", b"build/\xff", b""] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
