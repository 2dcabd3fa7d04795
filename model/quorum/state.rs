//! The state of the members and of the attempts.

/// Instants, in ticks.
pub(super) type Ticks = u8;

pub(super) const MEMBERS: usize = 3;

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    pub(super) now: Ticks,
    pub(super) members: [Member; MEMBERS],
    pub(super) attempts: Vec<Attempt>,
    /// How many members may still lose their data.
    pub(super) losses: u8,
    /// The largest token of all grants.
    pub(super) newest: u16,
    pub(super) shrunk: bool,
}

/// One store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Member {
    /// The attempt that it holds the lock for, and until when.
    pub(super) holder: Option<(u8, Ticks)>,
    pub(super) counter: u16,
}

/// An acquire by one coordinator, and the grant that it ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Attempt {
    /// Before the first member was called.
    pub(super) sent: Ticks,
    pub(super) votes: [Vote; MEMBERS],
    pub(super) phase: Phase,
}

/// What a member answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Vote {
    /// The call is under way.
    Sent,
    Granted(u16),
    Busy,
    /// It was undone. What comes after that is refused by the record of it.
    Withdrawn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    Voting,
    /// The counters of a majority are raised to the token.
    Raising {
        token: u16,
        /// The members that agree, and those whose counter shows the token.
        counted: [bool; MEMBERS],
        shown: [bool; MEMBERS],
    },
    Held {
        until: Ticks,
        votes: u8,
    },
    /// Not granted, or released; members are undone one by one.
    Over {
        until: Ticks,
    },
}

// === impl Member ===

impl Member {
    pub(super) fn holder(self, now: Ticks) -> Option<u8> {
        let alive = self.holder.filter(|(_, expires)| now < *expires);
        alive.map(|(attempt, _)| attempt)
    }
}
