//! How a lock is held, by whom, and the keys of that.

use crate::{
    host::{Words, words},
    script::keys,
};

/// How a lock is held. Exclusive and fair locks are one hash, which Redisson calls `RLock` and
/// `RFairLock`; the other two are sides of an `RReadWriteLock`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// One owner at a time, in no defined order.
    #[default]
    Exclusive,
    /// One owner at a time, in the order of asking.
    Fair,
    /// Together with other readers.
    Read,
    /// Alone, but for the same owner's reads.
    Write,
}

impl Mode {
    /// As it is written for people and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Fair => "fair",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// One owner's hold on one lock.
#[derive(Clone, Copy, Debug)]
pub struct Hold<'a> {
    /// The lock.
    pub name: &'a str,
    /// How it is held.
    pub mode: Mode,
    /// The owner, as a field of the lock's hash; for a write hold without Redisson's suffix.
    pub owner: &'a str,
    /// Whether the owner has said something of it, as far as the caller knows.
    pub noted: bool,
    /// Whether the field names one grant, as [`keys::grant_field`] does: then nothing but that
    /// grant is meant, and it need not be told from others of the owner.
    pub names_grant: bool,
}

// === impl Hold ===

impl<'a> Hold<'a> {
    /// A hold.
    pub const fn new(name: &'a str, mode: Mode, owner: &'a str) -> Self {
        Self {
            name,
            mode,
            owner,
            noted: false,
            names_grant: false,
        }
    }

    /// The same, of which the owner has said something or not.
    #[must_use]
    pub fn noted(self, noted: bool) -> Self {
        Self { noted, ..self }
    }

    /// The same, and the field names one grant.
    #[must_use]
    pub fn of_grant(self) -> Self {
        Self {
            names_grant: true,
            ..self
        }
    }

    /// The field of the lock's hash.
    pub(crate) fn field(&self) -> keys::Key<'a> {
        match self.mode {
            Mode::Write => keys::write_field(self.owner),
            Mode::Exclusive | Mode::Fair | Mode::Read => keys::Key::whole(self.owner),
        }
    }
}

/// Keys of an acquire but for the record.
pub(crate) fn acquire_keys(hold: Hold<'_>) -> Words {
    let Hold {
        name, mode, owner, ..
    } = hold;
    let mut keys = words![keys::lock(name), keys::counter(name)];
    match mode {
        Mode::Exclusive => {}
        Mode::Fair => keys.extend(queue_keys(name)),
        Mode::Read => keys.extend([
            keys::read_holds(name, owner),
            keys::readers(name),
            keys::writer_waiting(name),
            keys::read_holds_base(name),
        ]),
        Mode::Write => keys.extend([
            keys::read_holds(name, owner),
            keys::readers(name),
            keys::read_holds_base(name),
            keys::writer_waiting(name),
        ]),
    }
    keys
}

/// Keys of a release or an undo but for the record, and the channel if that is an argument.
pub(crate) fn release_keys(hold: Hold<'_>) -> (Words, Option<keys::Key<'_>>) {
    let name = hold.name;
    let channel = match hold.mode {
        Mode::Exclusive => keys::channel_key(name),
        Mode::Write => keys::rw_channel_key(name),
        Mode::Fair | Mode::Read => return (give_back_keys(hold), None),
    };
    (words![keys::lock(name), keys::counter(name)], Some(channel))
}

/// Keys of one of several locks that are released or undone together.
pub(crate) fn give_back_keys(hold: Hold<'_>) -> Words {
    let Hold {
        name, mode, owner, ..
    } = hold;
    let mut keys = words![keys::lock(name), keys::counter(name)];
    match mode {
        Mode::Exclusive => {
            keys.push(keys::channel_key(name));
        }
        Mode::Fair => {
            keys.push(keys::channel_key(name));
            keys.extend(queue_keys(name));
        }
        Mode::Read => keys.extend([
            keys::read_holds(name, owner),
            keys::readers(name),
            keys::read_holds_base(name),
            keys::rw_channel_key(name),
        ]),
        Mode::Write => {
            keys.push(keys::rw_channel_key(name));
        }
    }
    keys
}

/// The lock and its queue.
pub(crate) fn fair_keys(name: &str) -> Words {
    let mut keys = words![keys::lock(name)];
    keys.extend(queue_keys(name));
    keys
}

/// The queue of a fair lock.
pub(crate) fn queue_keys(name: &str) -> [keys::Key<'_>; 3] {
    [
        keys::queue(name),
        keys::queue_deadlines(name),
        keys::vouched_waiters(name),
    ]
}
