//! Why a call has no outcome.

use std::sync::Arc;

use crate::host::HostError;

/// Why a call has no outcome.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CallError {
    /// The script has not run and nothing changed.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The script may have run, or may still run.
    #[error("the store did not answer: {0}")]
    OutcomeUnknown(String),
    /// The script has run, but too few replicas have said that they know of it.
    #[error("{acknowledged} of {required} replicas acknowledged{}", because(.problem.as_deref()))]
    NotReplicated {
        /// Replicas that have.
        acknowledged: u32,
        /// Replicas that were needed.
        required: u32,
        /// Why they could not be counted, if so.
        problem: Option<Arc<str>>,
    },
    /// The store has no memory left for new state. Nothing changed.
    #[error("the store is out of memory")]
    OutOfMemory,
    /// The key under this name is not such a lock. Nothing changed.
    #[error("the key is used for another kind of lock, or for something else")]
    WrongKind,
    /// The fencing counter is so large that no larger token can follow, or it is below zero by as
    /// much. Only another program writes such a number. Nothing changed.
    #[error("the fencing counter is out of range: delete its key if no holder is left")]
    CounterOutOfRange,
    /// A limit of what one name may have in the store would be exceeded. Nothing changed.
    #[error("the limit {} is reached", .0.name())]
    LimitReached(StoreLimit),
    /// The owner holds the lock for reading, so as a writer it would wait for itself. Nothing
    /// changed.
    #[error("the owner holds the lock for reading and would wait for itself")]
    SelfDeadlock,
    /// The request id has been used for another operation on this name. Nothing changed.
    #[error("the request id was used for another operation on this name")]
    RequestIdReused,
    /// The request was granted when it was first made, and the grant has ended since. Nothing
    /// changed.
    #[error("the grant of this request has ended")]
    RequestOver,
    /// This kind of store does not have what was asked for. Nothing changed.
    #[error("a quorum of stores does not support {}", .0.name())]
    Unsupported(Unsupported),
    /// The store refused a command of the script, or answered in an unknown form. Commands before
    /// that one have run.
    #[error("the store answered: {0}")]
    Refused(String),
}

fn because(problem: Option<&str>) -> String {
    problem.map_or(String::new(), |problem| format!(": {problem}"))
}

/// A limit of what one name may have in the store, as it is named in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreLimit {
    /// Owners that hold one lock at the same time.
    HoldersPerLock,
    /// Permits of one semaphore that are taken at the same time.
    PermitsPerName,
}

/// What a quorum of stores cannot keep honest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The queues of several stores have no common order.
    FairLocks,
    /// Each store would give out all permits, so that all together give out more than there are.
    Semaphores,
    /// Counts that differ have no majority.
    Latches,
    /// Several locks by one call; one after the other can be had.
    SeveralAtOnce,
    /// The stores give one grant different tokens, by which a note is known to be the grant's.
    Notes,
    /// A lock that is marked on few stores is free.
    HoldAtLeast,
    /// Nor would its delay be kept.
    LockDelay,
    /// Each store would hand the lock over by itself.
    Tickets,
    /// An election is a fair lock, and its stores would have different records of it.
    Elections,
}

// === impl Unsupported ===

impl Unsupported {
    /// What its users are refused.
    pub const REFUSED: [Self; 8] = [
        Self::FairLocks,
        Self::Semaphores,
        Self::Latches,
        Self::Notes,
        Self::HoldAtLeast,
        Self::LockDelay,
        Self::Tickets,
        Self::Elections,
    ];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::FairLocks => "fair locks",
            Self::Semaphores => "semaphores",
            Self::Latches => "latches",
            Self::SeveralAtOnce => "calls that take several locks at once",
            Self::Notes => "notes",
            Self::HoldAtLeast => "hold_at_least",
            Self::LockDelay => "lock_delay",
            Self::Tickets => "hand-over by ticket",
            Self::Elections => "elections",
        }
    }
}

// === impl StoreLimit ===

impl StoreLimit {
    /// The limit's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::HoldersPerLock => "holders_per_lock_max",
            Self::PermitsPerName => "permits_per_name_max",
        }
    }
}

// === impl CallError ===

impl CallError {
    /// Whether it says nothing of the lock, only of the store: another call may have an outcome.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::OutcomeUnknown(_))
    }

    /// Whether what a change left behind is to be undone: the script may have run, or a part of it.
    pub fn may_have_changed(&self) -> bool {
        matches!(self, Self::OutcomeUnknown(_) | Self::Refused(_))
    }
}

impl From<HostError> for CallError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Unavailable(why) => Self::Unavailable(why),
            HostError::OutcomeUnknown(why) => Self::OutcomeUnknown(why),
            HostError::OutOfMemory => Self::OutOfMemory,
            HostError::Rejected { code, .. } if code == "WRONGTYPE" => Self::WrongKind,
            HostError::Rejected { code, message } => Self::Refused(format!("{code} {message}")),
        }
    }
}
