//! What an operation is about and how it ended, in the terms of metrics, spans and logs.

use lockkeeper_store::script::Mode;

use crate::{
    metrics::labels::{Kind, Outcome},
    multi::locks::Locks,
    types::{LockName, Owner, WaitEnd},
};

/// The subject of an operation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Subject<'a> {
    pub(crate) name: Option<&'a LockName>,
    pub(crate) mode: Option<Mode>,
    pub(crate) owner: Option<&'a Owner>,
    pub(crate) counts: Counts<'a>,
}

/// What the end of an operation is counted as.
#[derive(Clone, Copy, Default)]
pub(crate) enum Counts<'a> {
    #[default]
    Nothing,
    Grant(Kind),
    /// A grant of each lock.
    Grants(&'a Locks),
    /// This number of releases.
    Releases(usize),
    Renewal,
}

/// What the answer to an operation says.
#[derive(Clone, Copy)]
pub(crate) enum Summary {
    /// Carries the fencing token of a single lock.
    Granted(Option<u64>),
    Busy,
    NotGranted(WaitEnd),
    Released {
        /// Locks that the owner did not hold.
        not_held: usize,
    },
    /// Carries the fencing token of a lock.
    Renewed(Option<u64>),
    /// A wait for a latch ended before it opened.
    NotOpened(WaitEnd),
    Answered,
}

// === impl Subject ===

impl<'a> Subject<'a> {
    /// An operation on this name.
    pub(crate) fn of(name: &'a LockName) -> Self {
        Self {
            name: Some(name),
            ..Self::default()
        }
    }

    /// An operation of this owner.
    pub(crate) fn by(self, owner: &'a Owner) -> Self {
        let owner = Some(owner);
        Self { owner, ..self }
    }

    pub(crate) fn in_mode(self, mode: Mode) -> Self {
        let mode = Some(mode);
        Self { mode, ..self }
    }

    pub(crate) fn counts(self, counts: Counts<'a>) -> Self {
        Self { counts, ..self }
    }
}

// === impl Summary ===

impl Summary {
    /// The label of the metrics of acquires and waits.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Busy => Outcome::Busy,
            Self::NotGranted(why) | Self::NotOpened(why) => match why {
                WaitEnd::TimedOut => Outcome::TimedOut,
                WaitEnd::Cancelled => Outcome::Cancelled,
                WaitEnd::Deadlock => Outcome::Deadlock,
            },
            _ => Outcome::Granted,
        }
    }

    /// The result in spans and logs.
    pub(crate) fn result(self) -> &'static str {
        match self {
            Self::Granted(_) => "granted",
            Self::Busy => "busy",
            Self::NotGranted(_) => "not granted",
            Self::Released { .. } => "released",
            Self::Renewed(_) => "renewed",
            Self::NotOpened(_) | Self::Answered => "answered",
        }
    }

    /// The fencing token in spans and logs.
    pub(crate) fn token(self) -> Option<u64> {
        match self {
            Self::Granted(token) | Self::Renewed(token) => token,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_what_has_become_of_the_operation() {
        let rows = [
            (Summary::Granted(Some(7)), "granted", Some(7)),
            (Summary::Granted(None), "granted", None),
            (Summary::Busy, "busy", None),
            (Summary::NotGranted(WaitEnd::TimedOut), "not granted", None),
            (Summary::Released { not_held: 1 }, "released", None),
            (Summary::Renewed(Some(8)), "renewed", Some(8)),
            (Summary::NotOpened(WaitEnd::TimedOut), "answered", None),
            (Summary::Answered, "answered", None),
        ];
        for (summary, result, token) in rows {
            assert_eq!((summary.result(), summary.token()), (result, token));
        }
    }
}
