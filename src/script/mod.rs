//! The typed face of `lua/`: names become keys, numbers become outcomes.

pub mod calls;
pub mod catalog;
pub mod keys;

pub use calls::{
    Acquired, AcquiredAll, Attempt, AttemptAll, Batch, CountSet, CountedDown, Hold, Holder,
    Inspected, LatchInspected, Member, Members, Mode, Ownership, PermitAttempt, PermitHolder,
    PermitId, PermitRenewal, PermitRenewals, PermitsAcquired, PermitsReleased, PermitsSet, Refusal,
    Released, ReleasedMember, Renewal, Renewals, Renewed, Scripts, SemaphoreInspected, StoreClock,
    Taken, Vouched,
};

use std::time::Duration;

use crate::host::HostError;

/// How long the scripts keep what outlives a grant.
#[derive(Clone, Debug)]
pub struct Config {
    /// How long the fencing counter of an idle name is kept; zero: for ever.
    pub idle_token_retention: Duration,
    /// How long a repeat of a request id gets the first answer.
    pub request_retention: Duration,
    /// How long a waiter of a fair lock keeps its place when its coordinator says nothing any more.
    pub fair_waiter_timeout: Duration,
    /// How long a writer that waits holds new readers back; then they are let in for as long.
    pub writer_hold_back: Duration,
}

/// Why a call has no outcome.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CallError {
    /// The script has not run and nothing changed.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The script may have run, or may still run.
    #[error("the store did not answer: {0}")]
    OutcomeUnknown(String),
    /// The store has no memory left for new state. Nothing changed.
    #[error("the store is out of memory")]
    OutOfMemory,
    /// The key under this name is not such a lock. Nothing changed.
    #[error("the key is used for another kind of lock, or for something else")]
    WrongKind,
    /// The owner holds the lock for reading, so as a writer it would wait for itself. Nothing changed.
    #[error("the owner holds the lock for reading and would wait for itself")]
    SelfDeadlock,
    /// The request id has been used for another operation on this name. Nothing changed.
    #[error("the request id was used for another operation on this name")]
    RequestIdReused,
    /// The request was granted when it was first made, and the grant has ended since. Nothing changed.
    #[error("the grant of this request has ended")]
    RequestOver,
    /// The store refused the script or answered in an unknown form.
    #[error("the store answered: {0}")]
    Refused(String),
}

// === impl CallError ===

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
