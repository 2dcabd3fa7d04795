//! Errors of operations. Expected outcomes (a failed try, a wait that timed out) are values, not
//! errors.

use std::sync::Arc;

use lockkeeper_access::{QuotaReached, Right};
use lockkeeper_store::script::{CallError, Ownership, StoreLimit};

use crate::{
    lock::ticket::TicketRefused,
    types::{Invalid, LockName},
};

/// A bound of [`super::Limits`] that would be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Waits for one lock.
    WaitersPerLock,
    /// Waits in total.
    Waiters,
    /// Requests to yield that stand, in total or of one identity.
    Yields,
    /// Waits of one session.
    WaitsPerSession,
    /// Sessions.
    Sessions,
    /// Grants of one session.
    GrantsPerSession,
    /// Watchers.
    Watchers,
    /// Owners that hold one lock.
    HoldersPerLock,
    /// Taken permits of one semaphore.
    PermitsPerName,
}

/// Why an operation has no outcome.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The request is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The caller does not hold the lock or the permits.
    #[error("not the owner: {}", describe(*.0))]
    NotOwner(Ownership),
    /// The session does not exist or has ended.
    #[error("no such session")]
    SessionNotFound,
    /// The session's stream is broken. It can be resumed.
    #[error("the session has no stream: resume it")]
    SessionDetached,
    /// The resume token does not belong to the session.
    #[error("the resume token does not belong to this session")]
    ResumeTokenInvalid,
    /// The resume token is too old, or was replaced.
    #[error("the resume token has expired")]
    ResumeTokenExpired,
    /// The session was closed, or an operator has ended it.
    #[error("the session has ended: it cannot be resumed")]
    SessionEnded,
    /// An operator has ended the session, for this reason.
    #[error("the session was ended: {0}")]
    SessionEndedByForce(Arc<str>),
    /// The session was resumed at another coordinator.
    #[error("the session was resumed on another stream")]
    SessionSuperseded,
    /// A bound would be exceeded.
    #[error("the limit {} is reached", .0.name())]
    LimitReached(Limit),
    /// The caller has reached the quota of one identity.
    #[error(transparent)]
    QuotaReached(#[from] QuotaReached),
    /// No rule lets the caller do this.
    #[error("no rule gives the caller the right `{}` for {name}", right.name())]
    Forbidden {
        /// The right it lacks.
        right: Right,
        /// The name it lacks the right for.
        name: LockName,
    },
    /// A grant cannot be offered, or a ticket not be claimed.
    #[error("the ticket is refused: {}", .0.describe())]
    TicketRefused(TicketRefused),
    /// The candidate of a transfer does not wait for the leadership.
    #[error("no such candidate is waiting")]
    CandidateNotWaiting,
    /// The number of permits was never set.
    #[error("the semaphore does not exist: its number of permits was never set")]
    SemaphoreNotFound,
    /// The request asks for more permits than exist.
    #[error("the semaphore has only {total} permits")]
    PermitsExceeded {
        /// The permits that exist.
        total: u32,
    },
    /// A latch would be counted below zero.
    #[error("the latch's count is only {count}")]
    CountExceeded {
        /// The present count.
        count: u32,
    },
    /// The coordinator is stopping.
    #[error("this coordinator is draining")]
    Draining,
    /// The store has no outcome.
    #[error(transparent)]
    Store(CallError),
    /// The store has no outcome because of one of several locks.
    #[error("{0}: {1}")]
    StoreOf(LockName, CallError),
}

// === impl Error ===

impl Error {
    /// The same error for an operation on several locks: a caller that cannot have this lock learns
    /// which one it is.
    pub(crate) fn of(self, name: &LockName) -> Self {
        match self {
            Self::Store(
                error @ (CallError::WrongKind
                | CallError::SelfDeadlock
                | CallError::CounterOutOfRange
                | CallError::Unsupported(_)),
            ) => Self::StoreOf(name.clone(), error),
            error => error,
        }
    }
}

impl From<TicketRefused> for Error {
    fn from(why: TicketRefused) -> Self {
        Self::TicketRefused(why)
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::LimitReached(StoreLimit::HoldersPerLock) => {
                Self::LimitReached(Limit::HoldersPerLock)
            }
            CallError::LimitReached(StoreLimit::PermitsPerName) => {
                Self::LimitReached(Limit::PermitsPerName)
            }
            error => Self::Store(error),
        }
    }
}

// === impl Limit ===

impl Limit {
    /// The limit's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::WaitersPerLock => "waiters_per_lock_max",
            Self::Waiters => "waiters_max",
            Self::Yields => "yields_max",
            Self::WaitsPerSession => "waits_per_session_max",
            Self::Sessions => "sessions_max",
            Self::GrantsPerSession => "grants_per_session_max",
            Self::Watchers => "watchers_max",
            Self::HoldersPerLock => "holders_per_lock_max",
            Self::PermitsPerName => "permits_per_name_max",
        }
    }
}

fn describe(ownership: Ownership) -> &'static str {
    match ownership {
        Ownership::HeldByAnother => "another owner holds it",
        Ownership::Expired => "the grant has expired or was released, or never existed",
        Ownership::NeverHeld => "no such grant is known",
        Ownership::HeldInAnotherMode => "the caller holds it in another mode",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::tests::limits;

    #[test]
    fn an_error_says_what_is_wrong() {
        let name = LockName::parse("a", &limits()).unwrap();
        let rows = [
            (
                Error::NotOwner(Ownership::HeldByAnother),
                "not the owner: another owner holds it",
            ),
            (
                Error::NotOwner(Ownership::Expired),
                "not the owner: the grant has expired or was released, or never existed",
            ),
            (
                Error::NotOwner(Ownership::NeverHeld),
                "not the owner: no such grant is known",
            ),
            (
                Error::NotOwner(Ownership::HeldInAnotherMode),
                "not the owner: the caller holds it in another mode",
            ),
            (
                Error::LimitReached(Limit::WaitersPerLock),
                "the limit waiters_per_lock_max is reached",
            ),
            (
                Error::TicketRefused(TicketRefused::Expired),
                "the ticket is refused: it has expired",
            ),
            (
                Error::TicketRefused(TicketRefused::Over),
                "the ticket is refused: the grant has ended, or was handed over",
            ),
            (
                Error::Store(CallError::WrongKind).of(&name),
                "a: the key is used for another kind of lock, or for something else",
            ),
        ];
        for (error, expected) in rows {
            assert_eq!(error.to_string(), expected);
        }
        let refused = [TicketRefused::Invalid, TicketRefused::Unfit].map(TicketRefused::describe);
        assert!(refused[0].contains("session.secret") && refused[1].contains("EXCLUSIVE"));
    }

    #[test]
    fn a_caller_of_several_locks_learns_which_one_it_cannot_have() {
        let name = LockName::parse("a", &limits()).unwrap();
        let of = |error| Error::Store(error).of(&name);
        for error in [
            CallError::WrongKind,
            CallError::SelfDeadlock,
            CallError::CounterOutOfRange,
        ] {
            assert_eq!(of(error.clone()), Error::StoreOf(name.clone(), error));
        }
        let full = CallError::OutOfMemory;
        assert_eq!(of(full.clone()), Error::Store(full));
    }

    #[test]
    fn a_limit_of_the_store_is_a_limit_as_any_other() {
        let rows = [
            (StoreLimit::HoldersPerLock, Limit::HoldersPerLock),
            (StoreLimit::PermitsPerName, Limit::PermitsPerName),
        ];
        for (of_store, limit) in rows {
            let error = Error::from(CallError::LimitReached(of_store));
            assert_eq!(error, Error::LimitReached(limit));
        }
    }
}
