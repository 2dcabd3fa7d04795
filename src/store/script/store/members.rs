//! Several locks of one owner, as scripts are given them.

use sha2::{Digest as _, Sha256};

use crate::{
    host::{Script, Words},
    script::{
        CallError,
        calls::{Hold, Mode, encoding::malformed},
        keys,
    },
};

/// Numbers of each lock in the reply of an acquire or a release.
pub(super) const NUMBERS: usize = 4;

/// One of several locks, and what the caller knows of the owner's holds on it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The lock.
    pub name: &'a str,
    /// How it is to be held, or is held.
    pub mode: Mode,
    /// The holds that the owner has without the attempt, if the caller knows.
    pub known_holds: Option<u32>,
    /// The serial of the grant it is about, if the caller knows.
    pub serial: Option<u64>,
}

/// Several locks of one owner, never none. The first names the record of the request.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    /// The owner, as in [`Hold`].
    pub owner: &'a str,
    /// The locks: each name once, in the same order in every call about them.
    pub locks: &'a [Member<'a>],
}

// === impl Members ===

impl<'a> Members<'a> {
    pub(super) fn hold(&self, member: &Member<'a>) -> Hold<'a> {
        Hold::new(member.name, member.mode, self.owner)
    }

    pub(super) fn keys(&self, of: fn(Hold<'_>) -> Words, record: Option<&str>) -> Words {
        let mut keys = Words::default();
        for member in self.locks {
            keys.extend(&of(self.hold(member)));
        }
        keys.extend(record.map(|id| keys::record(self.locks[0].name, id)));
        keys
    }

    /// Tells these locks and modes from all others. No name contains a zero. Whether a lock is fair
    /// only its holder knows for sure.
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for member in self.locks {
            let mode = match member.mode {
                Mode::Fair => Mode::Exclusive,
                mode => mode,
            };
            digest.update(word(mode));
            digest.update([0]);
            digest.update(member.name);
            digest.update([0]);
        }
        hex::encode(digest.finalize())
    }

    /// Whether all are exclusive locks that the owner does not hold.
    pub(super) fn are_new(&self) -> bool {
        let mut locks = self.locks.iter();
        locks.all(|lock| lock.mode == Mode::Exclusive && lock.known_holds == Some(0))
    }

    /// The serials of exclusive locks; none if there are others, or one is not known.
    pub(super) fn serials_of_exclusive(&self) -> Option<Vec<u64>> {
        let serial = |lock: &Member<'_>| match lock.mode {
            Mode::Exclusive => lock.serial,
            Mode::Fair | Mode::Read | Mode::Write => None,
        };
        self.locks.iter().map(serial).collect()
    }

    pub(super) fn fit(&self, numbers: &[i64]) -> bool {
        numbers.len() == self.locks.len() * NUMBERS
    }

    /// Scripts count from 1.
    pub(super) fn which(
        &self,
        which: i64,
        script: &Script,
        reply: &[i64],
    ) -> Result<usize, CallError> {
        let which = usize::try_from(which)
            .ok()
            .and_then(|which| which.checked_sub(1));
        which
            .filter(|which| *which < self.locks.len())
            .ok_or_else(|| malformed(script, &reply))
    }
}

/// A mode as the scripts call it.
pub(super) fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "sole",
        Mode::Fair => "fair",
        Mode::Read => "read",
        Mode::Write => "write",
    }
}
