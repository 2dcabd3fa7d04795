//! Walking through the keys of a host, some at a time.

use bytes::Bytes;

/// Where a walk goes on. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCursor {
    /// The part of the host, where its parts are walked through one after the other.
    pub part: u32,
    /// Where in that part; the host's own numbering.
    pub position: u64,
}

/// Some of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// In no order.
    pub keys: Vec<Bytes>,
    /// Where to go on; none if that was all.
    pub next: Option<ScanCursor>,
}
