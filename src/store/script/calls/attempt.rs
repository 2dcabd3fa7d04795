//! What identifies an attempt to take a lock.

use std::time::Duration;

use super::note::Note;

/// What identifies an acquire, so that it can be repeated and undone.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The request id, if the first answer is to be kept; the attempt's own name, if only its undo
    /// will ask for it.
    pub request_id: Option<&'a str>,
    /// Unique for this attempt; several attempts may carry one request id.
    pub attempt: &'a str,
    /// The holds the owner has without this attempt, if the caller knows.
    pub known_holds: Option<u32>,
    /// The serial of the grant it adds a hold to or has got, if the caller knows: an undo leaves a
    /// newer one alone.
    pub serial: Option<u64>,
    /// The serial of a read grant, if this attempt gets a new one: a number below 2^53 that no
    /// other grant of the owner has.
    pub fresh_serial: u64,
    /// What the owner says of its hold; with none, what it said before stays.
    pub note: Option<&'a Note>,
    /// How long the lock is held at least, also after a release. Of an exclusive or fair lock that
    /// the owner does not hold yet; the lease is as long.
    pub least: Option<Duration>,
    /// For how long after its lease nobody gets the lock, unless the owner releases it before. Of
    /// an exclusive or fair lock that the owner does not hold yet.
    pub delay: Option<Duration>,
    /// The lease of the grant that an undo is about. A store of a quorum that misses the undo is
    /// sent it for as long.
    pub lease: Duration,
}

// === impl Attempt ===

impl<'a> Attempt<'a> {
    /// An attempt by this name, of an owner about whom nothing is known and who asks for nothing
    /// more than the lock.
    pub const fn new(attempt: &'a str, fresh_serial: u64) -> Self {
        Self {
            request_id: None,
            attempt,
            known_holds: None,
            serial: None,
            fresh_serial,
            note: None,
            least: None,
            delay: None,
            lease: Duration::ZERO,
        }
    }
}
